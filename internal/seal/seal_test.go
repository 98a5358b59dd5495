package seal_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ponte-pay/ponte/internal/seal"
)

func key(t *testing.T) []byte {
	t.Helper()
	k, err := seal.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func ring(t *testing.T, keys ...[]byte) *seal.Ring {
	t.Helper()
	r, err := seal.New(keys[0], keys[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSealed(t *testing.T) {
	t.Parallel()
	first, second := key(t), key(t)
	old, both := ring(t, first), ring(t, second, first)
	sealed, err := old.Seal(rand.Reader, []byte("whsec_1"), "endpoint 1")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("whsec")) {
		t.Error("it can be read")
	}
	again, _ := old.Seal(rand.Reader, []byte("whsec_1"), "endpoint 1")
	if bytes.Equal(sealed, again) {
		t.Error("the same secret looks the same")
	}
	for name, r := range map[string]*seal.Ring{"the key that sealed": old, "an older key": both} {
		if got, err := r.Open(sealed, "endpoint 1"); err != nil || string(got) != "whsec_1" {
			t.Errorf("with %s: %q %v", name, got, err)
		}
	}
	if _, err := ring(t, second).Open(sealed, "endpoint 1"); !errors.Is(err, seal.ErrKey) {
		t.Errorf("with another key: %v", err)
	}
	if _, err := old.Open(sealed, "endpoint 2"); !errors.Is(err, seal.ErrBroken) {
		t.Errorf("in another place: %v", err)
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if got, err := old.Open(changed, "endpoint 1"); err == nil {
			t.Fatalf("byte %d changed: %q", i, got)
		}
		if _, err := old.Open(sealed[:i], "endpoint 1"); err == nil {
			t.Fatalf("cut at %d", i)
		}
	}
}

func TestParseKey(t *testing.T) {
	t.Parallel()
	k := key(t)
	for _, text := range []string{hex.EncodeToString(k), base64.StdEncoding.EncodeToString(k) + "\n", base64.RawURLEncoding.EncodeToString(k)} {
		if got, err := seal.ParseKey(text); err != nil || !bytes.Equal(got, k) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"", "secret", hex.EncodeToString(k[:31]), hex.EncodeToString(append(k, 1))} {
		if _, err := seal.ParseKey(text); err == nil {
			t.Errorf("%q is a key", text)
		}
	}
	if _, err := seal.New(k[:16]); err == nil {
		t.Error("half a key will do")
	}
}

func TestLoadKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seal.key")
	if k, err := seal.FindKey(path); k != nil || err != nil {
		t.Fatalf("found %v %v", k, err)
	}
	keys := make([][]byte, 8)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() { keys[i], _ = seal.LoadKey(path, rand.Reader) })
	}
	all.Wait()
	for _, k := range keys {
		if len(k) != seal.KeyBytes || !bytes.Equal(k, keys[0]) {
			t.Fatalf("two processes have two keys: %x %x", k, keys[0])
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".seal-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := os.WriteFile(path, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.LoadKey(path, rand.Reader); err == nil {
		t.Error("nonsense is a key")
	}
}
