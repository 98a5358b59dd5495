package user

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/argon2"
)

// Cost is how hard a password is to try.
type Cost struct {
	MemoryKiB uint32
	Passes    uint32
}

// DefaultCost is what OWASP recommends of argon2id: some 25 ms of one core.
var DefaultCost = Cost{MemoryKiB: 19 << 10, Passes: 2}

const (
	saltBytes = 16
	hashBytes = 32

	// hashersMax is how many passwords are tried at once: each takes 19 MiB and a core, and a crowd of them must not take the
	// money's.
	hashersMax = 2
	hashWait   = 5 * time.Second // for a turn
)

// hasher makes and checks hashes of passwords.
type hasher struct {
	cost  Cost
	turns chan struct{}
	dummy func() string // a hash of nobody's, to be as slow about people who do not exist
}

func newHasher(cost Cost) *hasher {
	h := &hasher{cost: cost, turns: make(chan struct{}, hashersMax)}
	h.dummy = sync.OnceValue(func() string { return h.hash(rand.Text(), rand.Reader) })
	return h
}

// turn waits until a password may be tried, and returns what ends that.
func (h *hasher) turn(ctx context.Context) (done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, hashWait)
	defer cancel()
	select {
	case h.turns <- struct{}{}:
		return func() { <-h.turns }, nil
	case <-ctx.Done():
		return nil, ErrBusy
	}
}

// create returns the hash of a password as it is stored.
func (h *hasher) create(ctx context.Context, password string, random io.Reader) (string, error) {
	done, err := h.turn(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	return h.hash(password, random), nil
}

func (h *hasher) hash(password string, random io.Reader) string {
	salt := make([]byte, saltBytes)
	if _, err := io.ReadFull(random, salt); err != nil {
		panic("user: no randomness: " + err.Error())
	}
	sum := argon2.IDKey([]byte(password), salt, h.cost.Passes, h.cost.MemoryKiB, 1, hashBytes)
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=1$%s$%s", argon2.Version, h.cost.MemoryKiB, h.cost.Passes, encode(salt), encode(sum))
}

// check reports whether a hash is of that password. It takes as long for a hash of "", which is nobody's.
func (h *hasher) check(ctx context.Context, password, hash string) (bool, error) {
	done, err := h.turn(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	known := hash != ""
	if !known {
		hash = h.dummy()
	}
	if len(password) > PasswordMax {
		password = password[:PasswordMax]
		known = false
	}
	var version int
	var cost Cost
	parts := strings.Split(hash, "$")
	const partsWant = 6 // the first is empty
	if len(parts) != partsWant {
		return false, fmt.Errorf("user: a stored password has %d parts", len(parts))
	}
	if _, err := fmt.Sscanf(parts[2], "v=%d", &version); err != nil || version != argon2.Version {
		return false, fmt.Errorf("user: a stored password is of version %q", parts[2])
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=1", &cost.MemoryKiB, &cost.Passes); err != nil {
		return false, fmt.Errorf("user: a stored password has the cost %q", parts[3])
	}
	salt, saltErr := base64.RawStdEncoding.DecodeString(parts[4])
	want, wantErr := base64.RawStdEncoding.DecodeString(parts[5])
	if saltErr != nil || wantErr != nil {
		return false, errors.New("user: a stored password cannot be read")
	}
	got := argon2.IDKey([]byte(password), salt, cost.Passes, cost.MemoryKiB, 1, uint32(len(want)))
	return subtle.ConstantTimeCompare(got, want) == 1 && known, nil
}
