package sqldb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Only what proves that COMMIT did not happen may be called anything else than unknown.
func TestCommitted(t *testing.T) {
	t.Parallel()
	answer := func(severity, code string) error {
		return fmt.Errorf("wrapped: %w", &pgconn.PgError{Severity: "FEHLER", SeverityUnlocalized: severity, Code: code})
	}
	refusal := errors.New("sqldb: COMMIT was answered by ROLLBACK")
	tests := map[string]struct {
		tag  string
		err  error
		want error
	}{
		"committed":                   {tag: "COMMIT"},
		"rolled back":                 {tag: "ROLLBACK", want: refusal},
		"refused":                     {err: answer("ERROR", "23505"), want: ErrConflict},
		"deadlock":                    {err: answer("ERROR", "40P01"), want: errTransient},
		"cancelled":                   {err: answer("ERROR", "57014"), want: errTransient},
		"shutting down":               {err: answer("FATAL", "57P01"), want: ErrCommitUnknown},
		"crashed":                     {err: answer("PANIC", "XX000"), want: ErrCommitUnknown},
		"answer without a severity":   {err: answer("", "08006"), want: ErrCommitUnknown},
		"connection lost":             {err: io.ErrUnexpectedEOF, want: ErrCommitUnknown},
		"deadline":                    {err: context.DeadlineExceeded, want: ErrCommitUnknown},
		"cancelled by ourselves":      {err: context.Canceled, want: ErrCommitUnknown},
		"answer that makes no sense":  {err: errors.New("unexpected message"), want: ErrCommitUnknown},
		"argument that does not fit":  {err: pgx.ErrPreprocessingBatch{}, want: pgx.ErrPreprocessingBatch{}},
		"connection closed before it": {err: &neverSentError{}, want: errTransient},
	}
	for name, test := range tests {
		err := committed(pgconn.NewCommandTag(test.tag), test.err)
		if !errors.Is(err, test.want) && (err == nil || test.want == nil || err.Error() != test.want.Error()) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
		if unknown := errors.Is(err, ErrCommitUnknown); unknown && (errors.Is(err, ErrUnavailable) || errors.Is(err, errTransient)) {
			t.Errorf("%s: %v says that it is unknown and that it is known", name, err)
		} else if unknown != errors.Is(test.want, ErrCommitUnknown) {
			t.Errorf("%s: unknown is %t", name, unknown)
		}
	}
}

// neverSentError is what pgx says of a connection that it could not use.
type neverSentError struct{}

func (neverSentError) Error() string     { return "conn closed" }
func (neverSentError) SafeToRetry() bool { return true }

func TestPgError(t *testing.T) {
	t.Parallel()
	answer := func(severity, code string) error { return &pgconn.PgError{SeverityUnlocalized: severity, Code: code} }
	for name, test := range map[string]struct {
		err                    error
		unavailable, transient bool
	}{
		"syntax":               {err: answer("ERROR", "42601")},
		"no code":              {err: answer("ERROR", "")},
		"serialization":        {err: answer("ERROR", "40001"), transient: true},
		"too many connections": {err: answer("FATAL", "53300"), unavailable: true, transient: true},
		"starting up":          {err: answer("FATAL", "57P03"), unavailable: true, transient: true},
		"idle for too long":    {err: answer("FATAL", "25P03"), unavailable: true, transient: true},
		"lost":                 {err: io.EOF, unavailable: true, transient: true},
		"refused":              {err: &pgconn.ConnectError{Config: &pgconn.Config{}}, unavailable: true},
		"cancelled":            {err: context.Canceled},
	} {
		err := pgError(test.err)
		if got := errors.Is(err, ErrUnavailable); got != test.unavailable {
			t.Errorf("%s is unavailable: %t", name, got)
		}
		if got := errors.Is(err, errTransient); got != test.transient {
			t.Errorf("%s is transient: %t", name, got)
		}
		if !errors.Is(err, test.err) {
			t.Errorf("%s lost its cause", name)
		}
	}
}
