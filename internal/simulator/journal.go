package simulator

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"syscall"

	"github.com/ponte-pay/ponte/internal/plainjson"
)

// record is one line of the journal: exactly one of its fields is set. A new concern of the simulated world adds a field
// here and cases to [record.subject] and [book.apply].
type record struct {
	World   *worldRecord   `json:"world,omitempty"`
	Port    *portRecord    `json:"port,omitempty"`
	Clock   *clockRecord   `json:"clock,omitempty"`
	Webhook *webhookRecord `json:"webhook,omitempty"`
	Charge  *chargeRecord  `json:"charge,omitempty"`
	Payment *paymentRecord `json:"payment,omitempty"`
	Refund  *refundRecord  `json:"refund,omitempty"`

	Payout       *payoutRecord       `json:"payout,omitempty"`
	PayoutEnd    *payoutEndRecord    `json:"payout_end,omitempty"`
	PayoutReturn *payoutReturnRecord `json:"payout_return,omitempty"`

	Infraction *infractionRecord `json:"infraction,omitempty"`
	Defense    *defenseRecord    `json:"defense,omitempty"`
	Verdict    *verdictRecord    `json:"verdict,omitempty"`

	Crypto json.RawMessage `json:"crypto,omitempty"` // an entry of the chain world
}

// appendJSON writes the record as encoding/json does. Those of which there are most are written by hand.
func (r *record) appendJSON(to []byte) ([]byte, error) {
	switch {
	case r.Charge != nil:
		return append(r.Charge.AppendJSON(append(to, `{"charge":`...)), '}'), nil
	case r.Payment != nil:
		return append(r.Payment.AppendJSON(append(to, `{"payment":`...)), '}'), nil
	}
	return plainjson.Append(to, *r) // a copy, so that the others take no memory of their own
}

// extent is where a record stands in the journal. What stands there never changes.
type extent struct {
	at   int64 // its first byte
	size int32 // in bytes, its line's end included
}

// A line is the checksum of the record's JSON in hexadecimal, a space, the JSON, and a line's end.
const (
	checksumLen  = 8
	lineHead     = checksumLen + 1
	lineBytesMax = 1 << 20 // a body of 64 KiB written with escapes has less
)

var checksums = crc32.MakeTable(crc32.Castagnoli)

// journal is the file in which everything is written down before anybody is told. It is safe against the death of the
// process, not against the loss of power. Its owner calls append from one goroutine at a time; read needs no lock.
type journal struct {
	file *os.File
	size int64  // where the next record begins
	line []byte // room for the next record
}

// openJournal opens or makes the file and replays it. A last record that was cut off is dropped: nobody was told of it.
// It fails when another process has the file, or when anything but the end of it is damaged.
func openJournal(path string, replay func(extent, *record) error) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("simulator: %w", err)
	}
	j := &journal{file: file}
	if err := j.open(replay); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("simulator: %s: %w", path, err)
	}
	return j, nil
}

func (j *journal) open(replay func(extent, *record) error) error {
	if err := syscall.Flock(int(j.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("another simulator has it open: %w", err)
	}
	lines := bufio.NewReaderSize(j.file, lineBytesMax)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		var r record
		if err == nil {
			err = decode(line, &r)
		}
		if err != nil {
			if _, more := lines.Peek(1); more == nil {
				return fmt.Errorf("damaged at byte %d: %w", j.size, err)
			}
			return j.file.Truncate(j.size)
		}
		where := extent{j.size, int32(len(line))}
		if err := replay(where, &r); err != nil {
			return fmt.Errorf("record at byte %d: %w", j.size, err)
		}
		j.size += int64(len(line))
	}
}

var errChecksum = errors.New("wrong checksum")

// decode reads a whole line.
func decode(line []byte, r *record) error {
	if len(line) <= lineHead {
		return errChecksum
	}
	var want [checksumLen / 2]byte
	if _, err := hex.Decode(want[:], line[:checksumLen]); err != nil {
		return errChecksum
	}
	body := line[lineHead : len(line)-1]
	if checksum(body) != want {
		return errChecksum
	}
	return json.Unmarshal(body, r)
}

func checksum(body []byte) [checksumLen / 2]byte {
	sum := crc32.Checksum(body, checksums)
	return [checksumLen / 2]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}
}

// append writes a record behind all others. After an error nothing of it is there.
func (j *journal) append(r *record) (extent, error) {
	line, err := r.appendJSON(append(j.line[:0], "00000000 "...))
	if err != nil {
		return extent{}, fmt.Errorf("simulator: encode record: %w", err)
	}
	line = append(line, '\n')
	j.line = line
	if len(line) > lineBytesMax {
		return extent{}, fmt.Errorf("simulator: a record of %d bytes, at most %d", len(line), lineBytesMax)
	}
	sum := checksum(line[lineHead : len(line)-1])
	hex.Encode(line, sum[:])
	where := extent{j.size, int32(len(line))}
	// At a place of its own, so that what a failed write left is written over by the next.
	if _, err := j.file.WriteAt(line, where.at); err != nil {
		_ = j.file.Truncate(where.at)
		return extent{}, fmt.Errorf("simulator: write record: %w", err)
	}
	j.size += int64(len(line))
	return where, nil
}

// read returns the record that stands there.
func (j *journal) read(where extent) (*record, error) {
	line := make([]byte, where.size)
	if _, err := j.file.ReadAt(line, where.at); err != nil {
		return nil, fmt.Errorf("simulator: read record: %w", err)
	}
	var r record
	if err := decode(line, &r); err != nil {
		return nil, fmt.Errorf("simulator: record at byte %d: %w", where.at, err)
	}
	return &r, nil
}

// close lets others have the file. Unlocked first, because a process that is just being started has the file open too, for a
// moment, and with it the lock.
func (j *journal) close() error {
	_ = syscall.Flock(int(j.file.Fd()), syscall.LOCK_UN)
	return j.file.Close()
}
