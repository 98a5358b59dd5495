package sqldb

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	_ "modernc.org/sqlite" // repairs the library on some machines when the program starts
	lite "modernc.org/sqlite/lib"
)

// liteConn is a connection with its prepared statements. One goroutine at a time uses it.
//
// It calls the library itself. By database/sql and its driver a statement cost about as much as SQLite's own work for it:
// locks that nobody else ever wants, a piece of memory for each argument, names and types of columns that nobody reads.
type liteConn struct {
	readOnly bool

	mu   sync.Mutex // keeps close away from statements; nobody else waits for it
	tls  *libc.TLS
	db   uintptr              // 0 once it is closed
	kept map[string]*liteStmt // by their text as written
	room uintptr              // memory for the arguments of a statement
	size int                  // of it
}

const (
	roomMin = 4 << 10
	roomMax = 64 << 10 // is kept; what needs more gets it for once
)

// liteStmt is a prepared statement.
type liteStmt struct {
	handle uintptr
	places []int // for each of its parameters the place of its argument
}

var errLiteClosed = fmt.Errorf("%w: the connection is closed", ErrUnavailable)

// liteCodeError is what SQLite says went wrong.
type liteCodeError struct {
	code int32 // with its extension
	text string
}

func (f *liteCodeError) Error() string { return f.text }

func openLiteConn(ctx context.Context, path, pragmas string) (*liteConn, error) {
	c := &liteConn{tls: libc.NewTLS(), kept: map[string]*liteStmt{}}
	name, err := libc.CString(path)
	if err != nil {
		c.tls.Close()
		return nil, err
	}
	to := c.tls.Alloc(pointerSize)
	// It needs no locks of its own, see mu.
	rc := lite.Xsqlite3_open_v2(c.tls, name, to, lite.SQLITE_OPEN_READWRITE|lite.SQLITE_OPEN_CREATE|lite.SQLITE_OPEN_NOMUTEX, 0)
	c.db = pointerAt(to)
	c.tls.Free(pointerSize) // now, because close ends tls
	libc.Xfree(c.tls, name)
	if rc != lite.SQLITE_OK {
		err := liteError(c.failure(rc))
		c.close()
		return nil, err
	}
	lite.Xsqlite3_extended_result_codes(c.tls, c.db, 1)
	if err := c.script(ctx, pragmas); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

const pointerSize = int(unsafe.Sizeof(uintptr(0)))

// pointerAt reads a pointer that the library has written.
func pointerAt(p uintptr) uintptr { return *(*uintptr)(memory(p)) }

// bytesAt returns memory of the library as it is, not a copy of it.
func bytesAt(p uintptr, n int) []byte {
	return unsafe.Slice((*byte)(memory(p)), n) //nolint:gosec // it is as long as the library says, or as we made it
}

// memory is how the library's addresses become Go's. They lie outside of Go's heap, which neither moves nor frees them.
func memory(p uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&p)) //nolint:gosec // vet takes any other way for a lost pointer of Go's
}

// close ends the statements first: with one of them open SQLite would not fold the log into the file.
func (c *liteConn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tls == nil {
		return
	}
	for _, s := range c.kept {
		lite.Xsqlite3_finalize(c.tls, s.handle)
	}
	c.kept = nil
	lite.Xsqlite3_close_v2(c.tls, c.db)
	libc.Xfree(c.tls, c.room)
	c.tls.Close()
	c.tls, c.db, c.room = nil, 0, 0
}

// requireWAL refuses what SQLite would accept without a word: a place where readers would wait for the writer, such as
// some network file systems, or where each connection would have a database of its own.
func (c *liteConn) requireWAL(ctx context.Context) error {
	mode := ""
	err := c.query(ctx, `PRAGMA journal_mode`, nil, func(r Row) error { return r.Scan(&mode) })
	if err == nil && mode != "wal" {
		err = fmt.Errorf("its journal is %q, not a write-ahead log", mode)
	}
	return err
}

// prepare returns the kept statement. Rows of an earlier one are never open here, see [Tx.usable], so that any may go.
func (c *liteConn) prepare(text string) (*liteStmt, error) {
	if s := c.kept[text]; s != nil {
		return s, nil
	}
	if c.db == 0 {
		return nil, errLiteClosed
	}
	if len(c.kept) == statementsKept {
		for old, s := range c.kept {
			lite.Xsqlite3_finalize(c.tls, s.handle)
			delete(c.kept, old)
			break
		}
	}
	written, err := libc.CString(liteText(text))
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, written)
	to := c.tls.Alloc(2 * pointerSize)
	defer c.tls.Free(2 * pointerSize)
	rest := to + uintptr(pointerSize)
	if rc := lite.Xsqlite3_prepare_v3(c.tls, c.db, written, -1, lite.SQLITE_PREPARE_PERSISTENT, to, rest); rc != lite.SQLITE_OK {
		return nil, c.failure(rc)
	}
	s := &liteStmt{handle: pointerAt(to)}
	if s.handle == 0 || strings.TrimSpace(libc.GoString(pointerAt(rest))) != "" {
		lite.Xsqlite3_finalize(c.tls, s.handle)
		return nil, errors.New("sqldb: not one statement")
	}
	for i := range lite.Xsqlite3_bind_parameter_count(c.tls, s.handle) {
		// To SQLite $2 is a name like any other.
		name := libc.GoString(lite.Xsqlite3_bind_parameter_name(c.tls, s.handle, i+1))
		place, err := strconv.Atoi(strings.TrimPrefix(name, "$"))
		if err != nil || place < 1 {
			lite.Xsqlite3_finalize(c.tls, s.handle)
			return nil, fmt.Errorf("sqldb: %q is no placeholder", name)
		}
		s.places = append(s.places, place-1)
	}
	c.kept[text] = s
	return s, nil
}

func (c *liteConn) queue(ctx context.Context, text string, args []any, otherwise error) error {
	n, err := c.exec(ctx, text, args)
	if err == nil && n == 0 && otherwise != nil {
		return &refusal{otherwise}
	}
	return err
}

// exec runs a statement to its end, whatever becomes of the context: a write is never cancelled half-way.
func (c *liteConn) exec(_ context.Context, text string, args []any) (int64, error) {
	if err := plain(args); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.start(text, args)
	if err != nil {
		return 0, c.meaning(err)
	}
	rc := lite.Xsqlite3_step(c.tls, s.handle)
	for rc == lite.SQLITE_ROW {
		rc = lite.Xsqlite3_step(c.tls, s.handle)
	}
	if rc != lite.SQLITE_DONE {
		err = c.failure(rc)
	}
	lite.Xsqlite3_reset(c.tls, s.handle) // says the same again
	if err != nil {
		return 0, c.meaning(err)
	}
	return int64(lite.Xsqlite3_changes(c.tls, c.db)), nil
}

// query looks at ctx between rows.
func (c *liteConn) query(ctx context.Context, text string, args []any, each func(Row) error) error {
	if err := plain(args); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.start(text, args)
	if err != nil {
		return c.meaning(err)
	}
	defer lite.Xsqlite3_reset(c.tls, s.handle)
	row := &liteRow{c.tls, s.handle}
	for {
		switch rc := lite.Xsqlite3_step(c.tls, s.handle); rc {
		case lite.SQLITE_ROW:
		case lite.SQLITE_DONE:
			return nil
		default:
			return c.meaning(c.failure(rc))
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := each(row); err != nil {
			return err
		}
	}
}

func (c *liteConn) script(_ context.Context, text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.db == 0 {
		return errLiteClosed
	}
	written, err := libc.CString(text)
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, written)
	if rc := lite.Xsqlite3_exec(c.tls, c.db, written, 0, 0, 0); rc != lite.SQLITE_OK {
		return c.meaning(c.failure(rc))
	}
	return nil
}

// start prepares a statement and gives it its arguments, which plain has seen.
func (c *liteConn) start(text string, args []any) (*liteStmt, error) {
	s, err := c.prepare(text)
	if err != nil {
		return nil, err
	}
	size := 0
	for _, arg := range args {
		switch v := arg.(type) {
		case string:
			size += len(v)
		case *string:
			if v != nil {
				size += len(*v)
			}
		case []byte:
			size += len(v)
		}
	}
	if err := c.makeRoom(size); err != nil {
		return nil, err
	}
	at := c.room
	for i, place := range s.places {
		if place >= len(args) {
			return nil, fmt.Errorf("sqldb: no argument $%d", place+1)
		}
		var rc int32
		if at, rc = c.bind(s.handle, int32(i+1), args[place], at); rc != lite.SQLITE_OK {
			return nil, c.failure(rc)
		}
	}
	return s, nil
}

// makeRoom has room for the arguments of one statement. Nothing reads those of an earlier one any more.
func (c *liteConn) makeRoom(size int) error {
	if c.room != 0 && size <= c.size && c.size <= roomMax {
		return nil
	}
	libc.Xfree(c.tls, c.room)
	c.size = max(size, roomMin)
	c.room = libc.Xmalloc(c.tls, types.Size_t(c.size))
	if c.room == 0 {
		c.size = 0
		return &liteCodeError{lite.SQLITE_NOMEM, "no memory for arguments"}
	}
	return nil
}

// bind gives a statement one argument. Its bytes are copied to at; it returns where the next ones go.
func (c *liteConn) bind(handle uintptr, i int32, arg any, at uintptr) (next uintptr, rc int32) {
	switch v := arg.(type) {
	case int64:
		return at, lite.Xsqlite3_bind_int64(c.tls, handle, i, v)
	case int:
		return at, lite.Xsqlite3_bind_int64(c.tls, handle, i, int64(v))
	case bool:
		n := int64(0)
		if v {
			n = 1
		}
		return at, lite.Xsqlite3_bind_int64(c.tls, handle, i, n)
	case string:
		return c.bindText(handle, i, v, at)
	case *string:
		if v != nil {
			return c.bindText(handle, i, *v, at)
		}
	case *int64:
		if v != nil {
			return at, lite.Xsqlite3_bind_int64(c.tls, handle, i, *v)
		}
	case []byte:
		if v != nil {
			n := copy(bytesAt(at, len(v)), v)
			return at + uintptr(n), lite.Xsqlite3_bind_blob(c.tls, handle, i, at, int32(n), 0)
		}
	}
	return at, lite.Xsqlite3_bind_null(c.tls, handle, i)
}

func (c *liteConn) bindText(handle uintptr, i int32, v string, at uintptr) (next uintptr, rc int32) {
	n := copy(bytesAt(at, len(v)), v)
	return at + uintptr(n), lite.Xsqlite3_bind_text(c.tls, handle, i, at, int32(n), 0)
}

// plain turns arguments, where they are, into what bind knows, and refuses text that PostgreSQL would refuse.
func plain(args []any) error {
	for i, arg := range args {
		switch v := arg.(type) {
		case nil, int64, int, bool, []byte, *int64:
			continue
		case string, *string:
		default:
			value, err := driverValue(v)
			if err != nil {
				return fmt.Errorf("sqldb: argument $%d: %w", i+1, err)
			}
			switch value.(type) {
			case nil, int64, bool, []byte, string:
			default:
				return fmt.Errorf("sqldb: argument $%d is a %T, which no column holds", i+1, value)
			}
			args[i] = value
		}
		text, is := args[i].(string)
		if p, isPointer := args[i].(*string); isPointer && p != nil {
			text, is = *p, true
		}
		if is && (!utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0) {
			return errText
		}
	}
	return nil
}

// driverValue is what database/sql would make of an argument. Identifiers are in every statement, and are asked straight.
func driverValue(v any) (sqldriver.Value, error) {
	if valuer, ok := v.(sqldriver.Valuer); ok && reflect.TypeOf(v).Kind() != reflect.Pointer { // nil is for the converter
		return valuer.Value()
	}
	return sqldriver.DefaultParameterConverter.ConvertValue(v)
}

// liteRow is the row that a statement is at.
type liteRow struct {
	tls    *libc.TLS
	handle uintptr
}

func (r *liteRow) Scan(dest ...any) error {
	if n := int(lite.Xsqlite3_data_count(r.tls, r.handle)); n != len(dest) {
		return fmt.Errorf("sqldb: a row of %d columns for %d variables", n, len(dest))
	}
	for i, d := range dest {
		if err := r.column(int32(i), d); err != nil {
			return fmt.Errorf("sqldb: column %d: %w", i+1, err)
		}
	}
	return nil
}

// column reads one column.
func (r *liteRow) column(i int32, dest any) error {
	kind := lite.Xsqlite3_column_type(r.tls, r.handle, i)
	switch d := dest.(type) {
	case *int64:
		if kind == lite.SQLITE_INTEGER {
			*d = lite.Xsqlite3_column_int64(r.tls, r.handle, i)
			return nil
		}
	case *string:
		if kind == lite.SQLITE_TEXT {
			*d = string(r.bytes(i))
			return nil
		}
	case *[]byte:
		switch kind {
		case lite.SQLITE_BLOB: // also when it is empty it is not NULL
			*d = append([]byte{}, r.bytes(i)...)
			return nil
		case lite.SQLITE_NULL:
			*d = nil
			return nil
		}
	case sql.Scanner:
		return d.Scan(r.value(i, kind))
	case *any:
		*d = r.value(i, kind)
		if b, is := (*d).([]byte); is {
			*d = append([]byte{}, b...)
		}
		return nil
	}
	return r.reflected(i, kind, reflect.ValueOf(dest))
}

// bytes returns the bytes of a text or blob where SQLite has them: until the statement goes on.
func (r *liteRow) bytes(i int32) []byte {
	p := lite.Xsqlite3_column_blob(r.tls, r.handle, i) // of a text too, as it is in UTF-8
	n := lite.Xsqlite3_column_bytes(r.tls, r.handle, i)
	if p == 0 || n == 0 {
		return nil
	}
	return bytesAt(p, int(n))
}

// value returns a column as database/sql's drivers do, for those who scan by themselves.
func (r *liteRow) value(i, kind int32) any {
	switch kind {
	case lite.SQLITE_INTEGER:
		return lite.Xsqlite3_column_int64(r.tls, r.handle, i)
	case lite.SQLITE_FLOAT:
		return lite.Xsqlite3_column_double(r.tls, r.handle, i)
	case lite.SQLITE_TEXT:
		return string(r.bytes(i))
	case lite.SQLITE_BLOB:
		return r.bytes(i)
	}
	return nil
}

// reflected reads a column into a variable of a type that is only known now.
func (r *liteRow) reflected(i, kind int32, dest reflect.Value) error {
	if dest.Kind() != reflect.Pointer || dest.IsNil() {
		return fmt.Errorf("%s is no variable", dest.Type())
	}
	v := dest.Elem()
	switch {
	case v.Kind() == reflect.Pointer && kind == lite.SQLITE_NULL:
		v.SetZero()
		return nil
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return r.column(i, v.Interface())
	case v.CanInt() && kind == lite.SQLITE_INTEGER:
		n := lite.Xsqlite3_column_int64(r.tls, r.handle, i)
		if v.OverflowInt(n) {
			return fmt.Errorf("%d is too much for %s", n, v.Type())
		}
		v.SetInt(n)
		return nil
	case v.Kind() == reflect.Bool && kind == lite.SQLITE_INTEGER:
		v.SetBool(lite.Xsqlite3_column_int64(r.tls, r.handle, i) != 0)
		return nil
	case v.Kind() == reflect.String && kind == lite.SQLITE_TEXT:
		v.SetString(string(r.bytes(i)))
		return nil
	}
	return fmt.Errorf("%s for %T", liteKinds[kind], dest.Interface())
}

var liteKinds = map[int32]string{
	lite.SQLITE_INTEGER: "a number", lite.SQLITE_FLOAT: "a fraction", lite.SQLITE_TEXT: "a text", lite.SQLITE_BLOB: "bytes", lite.SQLITE_NULL: "NULL",
}

// failure reads what SQLite says about the code that it has just returned.
func (c *liteConn) failure(rc int32) error {
	text := libc.GoString(lite.Xsqlite3_errstr(c.tls, rc))
	if c.db != 0 {
		if more := libc.GoString(lite.Xsqlite3_errmsg(c.tls, c.db)); more != text {
			text += ": " + more
		}
	}
	return &liteCodeError{rc, fmt.Sprintf("%s (%d)", text, rc)}
}

// meaning gives a failure of this connection its meaning.
func (c *liteConn) meaning(err error) error {
	if c.readOnly && liteCode(err)&litePrimary == lite.SQLITE_READONLY {
		return failure(errReadOnly, err)
	}
	return liteError(err)
}

var liteDropped = strings.NewReplacer(" FOR NO KEY UPDATE", "", " FOR UPDATE SKIP LOCKED", "")

// liteText drops the clauses that only PostgreSQL knows.
func liteText(text string) string { return liteDropped.Replace(text) }

// liteCode returns SQLite's extended code of a failure, or 0 when it is none of SQLite's.
func liteCode(err error) int32 {
	if f, ok := errors.AsType[*liteCodeError](err); ok {
		return f.code
	}
	return 0
}

const litePrimary = 0xff // of a code; the rest only refines it

// liteError gives a failure its meaning.
func liteError(err error) error {
	code := liteCode(err)
	switch code {
	case lite.SQLITE_CONSTRAINT_UNIQUE, lite.SQLITE_CONSTRAINT_PRIMARYKEY:
		return failure(ErrConflict, err)
	case lite.SQLITE_CONSTRAINT_CHECK:
		return failure(ErrCheck, err)
	case lite.SQLITE_CONSTRAINT_TRIGGER:
		return failure(ErrAppendOnly, err)
	}
	switch code & litePrimary {
	case lite.SQLITE_BUSY, lite.SQLITE_LOCKED:
		return failure(errTransient, failure(ErrUnavailable, err))
	case lite.SQLITE_FULL, lite.SQLITE_IOERR, lite.SQLITE_NOMEM, lite.SQLITE_CANTOPEN, lite.SQLITE_READONLY, lite.SQLITE_CORRUPT:
		return failure(ErrUnavailable, err)
	}
	return err
}
