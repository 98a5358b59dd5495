// Package seal keeps secrets unreadable where they are stored: whoever has the database and not the key learns nothing, and
// what was sealed for one place opens in no other.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// KeyBytes is the length of a key.
const KeyBytes = 32

const (
	format    = 1 // the first byte of everything sealed
	nameBytes = 4 // of the key's name, behind it
)

// Why something cannot be opened.
var (
	ErrKey    = errors.New("seal: it was sealed with a key that is not known here")
	ErrBroken = errors.New("seal: it was changed, or belongs to another place")
)

// Ring is a key to seal with, and the keys to open with.
type Ring struct {
	sealing *key
	opening map[[nameBytes]byte]*key
}

type key struct {
	name [nameBytes]byte // tells keys apart, and nothing about them
	aead cipher.AEAD
}

// New returns a ring that seals with the first key and opens what any of them sealed.
func New(sealing []byte, older ...[]byte) (*Ring, error) {
	r := &Ring{opening: map[[nameBytes]byte]*key{}}
	for _, secret := range append([][]byte{sealing}, older...) {
		if len(secret) != KeyBytes {
			return nil, fmt.Errorf("seal: a key of %d bytes: want %d", len(secret), KeyBytes)
		}
		block, err := aes.NewCipher(secret)
		if err != nil {
			return nil, fmt.Errorf("seal: %w", err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, fmt.Errorf("seal: %w", err)
		}
		sum := sha256.Sum256(append([]byte("ponte seal key "), secret...))
		k := &key{name: [nameBytes]byte(sum[:nameBytes]), aead: aead}
		r.opening[k.name] = k
		if r.sealing == nil {
			r.sealing = k
		}
	}
	return r, nil
}

// Seal returns secret so that only [Ring.Open] with the same place can read it.
func (r *Ring) Seal(random io.Reader, secret []byte, place string) ([]byte, error) {
	k := r.sealing
	out := append([]byte{format}, k.name[:]...)
	nonce := make([]byte, k.aead.NonceSize())
	if _, err := io.ReadFull(random, nonce); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return k.aead.Seal(append(out, nonce...), nonce, secret, []byte(place)), nil
}

// Open returns what was sealed for that place. It fails with [ErrKey] or [ErrBroken].
func (r *Ring) Open(sealed []byte, place string) ([]byte, error) {
	head := 1 + nameBytes
	if len(sealed) < head || sealed[0] != format {
		return nil, ErrBroken
	}
	k := r.opening[[nameBytes]byte(sealed[1:head])]
	if k == nil {
		return nil, ErrKey
	}
	if len(sealed) < head+k.aead.NonceSize() {
		return nil, ErrBroken
	}
	nonce, rest := sealed[head:head+k.aead.NonceSize()], sealed[head+k.aead.NonceSize():]
	secret, err := k.aead.Open(nil, nonce, rest, []byte(place))
	if err != nil {
		return nil, ErrBroken
	}
	return secret, nil
}

// ParseKey reads a key that an operator wrote: 32 bytes in base64 or in hex.
func ParseKey(text string) ([]byte, error) {
	text = strings.TrimSpace(text)
	for _, decode := range []func(string) ([]byte, error){
		hex.DecodeString, base64.StdEncoding.DecodeString, base64.RawStdEncoding.DecodeString,
		base64.URLEncoding.DecodeString, base64.RawURLEncoding.DecodeString,
	} {
		if k, err := decode(text); err == nil && len(k) == KeyBytes {
			return k, nil
		}
	}
	return nil, fmt.Errorf("seal: a key is %d bytes in base64 or in hex, such as openssl rand -base64 32 prints", KeyBytes)
}

// NewKey draws a key.
func NewKey(random io.Reader) ([]byte, error) {
	k := make([]byte, KeyBytes)
	if _, err := io.ReadFull(random, k); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return k, nil
}

// LoadKey returns the key in a file that only its owner reads, and makes both where there is none. Of several processes
// that make it at once all get the same.
func LoadKey(path string, random io.Reader) ([]byte, error) {
	for {
		content, err := os.ReadFile(path) //nolint:gosec // the operator names the file
		if err == nil {
			k, err := ParseKey(string(content))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			return k, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err := makeKey(path, random); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
}

// FindKey is [LoadKey] that makes none: it returns nil.
func FindKey(path string) ([]byte, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) { //nolint:gosec // the operator names the file
		return nil, nil
	}
	return LoadKey(path, nil)
}

// makeKey writes a whole key beside its place and then links it there, which fails when another process was first.
func makeKey(path string, random io.Reader) error {
	k, err := NewKey(random)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".seal-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString(base64.StdEncoding.EncodeToString(k) + "\n")
	if err == nil {
		err = file.Sync() // what is sealed with it must not outlive it
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Link(file.Name(), path)
}
