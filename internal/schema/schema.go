// Package schema brings a database to the tables that this binary knows, forward only, and refuses to touch one that it
// does not.
package schema

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Class says how a table is cut when one machine is not enough.
type Class string

const (
	Tenant    Class = "tenant"    // belongs to one account: its key and every statement carry account_id
	Reference Class = "reference" // small, the same on every machine
	Local     Class = "local"     // of the machine that coordinates
)

// Tables are all tables with their class. A test holds them equal to the migrations.
var Tables = map[string]Class{
	"account":          Reference,
	"api_key":          Reference,
	"ip_block":         Reference,
	"person":           Reference,
	"member":           Reference,
	"recovery_code":    Reference,
	"invitation":       Reference,
	"balance":          Tenant,
	"delta":            Tenant,
	"transfer":         Tenant,
	"bound_key":        Tenant,
	"charge":           Tenant,
	"payout":           Tenant,
	"clawback":         Tenant,
	"infraction":       Tenant,
	"deposit":          Tenant,
	"withdrawal":       Tenant,
	"event":            Tenant,
	"endpoint":         Tenant,
	"delivery":         Tenant,
	"delivery_attempt": Tenant,
	"feed":             Tenant,
	"feed_place":       Tenant,
	"activity":         Tenant,
	"activity_mark":    Tenant,
	"schema_version":   Local,
	"node":             Local,
	"clock":            Local,
	"paid_change":      Local,
	"simulator":        Local,
	"rate_window":      Local,
	"unmatched":        Local,
	"acquirer_cursor":  Local,
	"bookmark":         Local,
	"seal_key":         Local,
	"session":          Local,
	"sign_in_try":      Local,

	"acquirer_switch": Reference,
	"operator_log":    Local,

	"unmatched_infraction": Local,
	"unmatched_deposit":    Local,
}

// Finds are the statements that look over all accounts, by package and constant, each with its reason. A test refuses any
// other statement on a tenant table that does not name its account. A find is one bounded read without locks; what it
// finds is acted on in one account.
var Finds = map[string]string{
	"charge.findExpired":              "charges whose time is over",
	"charge.findReleased":             "money whose waiting time is over",
	"deposit.findDue":                 "deposits whose provider is to be asked",
	"deposit.findReviews":             "deposits that an operator should look at",
	"deposit.countReviews":            "the same, counted",
	"deposit.findAccountWithDeposits": "the audit goes from account to account",
	"idempotency.findForgotten":       "keys that are no longer remembered",
	"payout.findAcquirer":             "acquirers that have payouts under way",
	"payout.findDue":                  "payouts whose acquirer is to be asked",
	"payout.findDoubts":               "payouts of which nobody knows whether they were sent",
	"payout.countDoubts":              "the same, added up",
	"payout.findAccountWithPayouts":   "the audit goes from account to account",
	"withdrawal.findDue":              "withdrawals whose provider is to be asked",
	"withdrawal.findByProviderID":     "notifications name a payout by the provider's id only",
	"withdrawal.findDoubts":           "withdrawals of which nobody knows whether they were sent",
	"withdrawal.countDoubts":          "the same, added up",
	"withdrawal.findAccount":          "the audit goes from account to account",
	"webhook.findEndpoint":            "an operator names an endpoint without its account",
	"webhook.findChanged":             "every node knows all endpoints",
	"webhook.findDue":                 "deliveries whose time has come",
	"webhook.findOwner":               "nodes that have deliveries in hand, dead ones among them",
	"webhook.findOwned":               "what a dead node had in hand",
	"webhook.findParked":              "how many deliveries have failed for good",
	"webhook.findParkedAfter":         "operators look at deliveries that have failed for good",
	"webhook.findOldestWaiting":       "how late deliveries are",
	"clawback.findAccount":            "the audit goes from account to account",
	"charge.findAccountWithCharges":   "the audit goes from account to account",
	"infraction.findNamed":            "acquirers know infractions by names that do not tell the account",
	"infraction.findLatest":           "operators look at infractions of all accounts",
	"infraction.findUndecided":        "infractions whose acquirer may have decided them",
	"infraction.findHanding":          "defenses that wait for their acquirer",
	"infraction.countDefenses":        "defenses that operators must look at",
	"infraction.findAccount":          "the audit goes from account to account",
	"ledger.findWaitingBook":          "credits that dead nodes left unfolded",
	"ledger.findAccountWithBalance":   "the audit goes from account to account",
	"ledger.findAccountWithTransfers": "the audit goes from account to account",
}

// Why a database cannot be used as it is.
var (
	ErrEmpty  = errors.New("the database has no tables yet: run ponte migrate or ponte serve")
	ErrBehind = errors.New("the database is older than this binary: run ponte migrate")
	ErrNewer  = errors.New("the database was made by a newer ponte: use that one")
)

//go:embed migrations
var files embed.FS

const migrateTimeMax = 10 * time.Minute

// migration is one step, in one dialect.
type migration struct {
	version  int64
	name     string
	sql      string
	checksum string
}

// migrations returns the steps for db in order. The files are part of the binary, so that a fault in them is a defect.
func migrations(db *sqldb.DB) ([]migration, error) {
	if db.IsPostgres() {
		return readMigrations("migrations/postgres")
	}
	return readMigrations("migrations/sqlite")
}

func readMigrations(folder string) ([]migration, error) {
	entries, err := fs.ReadDir(files, folder) // sorted by name
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	var steps []migration
	for i, e := range entries {
		sql, err := fs.ReadFile(files, path.Join(folder, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("schema: %w", err)
		}
		number, name, _ := strings.Cut(strings.TrimSuffix(e.Name(), ".sql"), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil || version != int64(i)+1 {
			return nil, fmt.Errorf("schema: migration %s: want number %04d", e.Name(), i+1)
		}
		sum := sha256.Sum256(sql)
		steps = append(steps, migration{version, name, string(sql), hex.EncodeToString(sum[:])})
	}
	return steps, nil
}

const (
	createVersions = `CREATE TABLE IF NOT EXISTS schema_version (
    version    BIGINT NOT NULL PRIMARY KEY, -- 1, 2, 3, ...
    name       TEXT   NOT NULL,             -- of the file
    checksum   TEXT   NOT NULL,             -- SHA-256 of the file, in hex
    applied_at BIGINT NOT NULL              -- microseconds UTC
)`
	insertVersion  = `INSERT INTO schema_version (version, name, checksum, applied_at) VALUES ($1, $2, $3, $4)`
	selectVersions = `SELECT version, name, checksum FROM schema_version ORDER BY version LIMIT 10000`

	countVersions = `SELECT COUNT(*) FROM schema_version`

	// One migrator at a time; the others wait and then find nothing to do. The number means nothing.
	lockMigrations = `SELECT pg_advisory_xact_lock(7083021)`

	countTablesLite     = `SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'schema_version'`
	countTablesPostgres = `SELECT COUNT(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'schema_version'`
)

// Migrate brings db up to date in one transaction and returns its version. It fails and changes nothing when db is newer
// than this binary, or was brought up by other steps.
func Migrate(ctx context.Context, db *sqldb.DB, now time.Time) (version int64, err error) {
	steps, err := migrations(db)
	if err != nil {
		return 0, err
	}
	return migrate(ctx, db, now, steps)
}

func migrate(ctx context.Context, db *sqldb.DB, now time.Time, steps []migration) (version int64, err error) {
	err = db.WriteWithin(ctx, migrateTimeMax, func(ctx context.Context, tx *sqldb.Tx) error {
		if db.IsPostgres() {
			if err := tx.Script(ctx, lockMigrations); err != nil {
				return err
			}
		}
		if err := tx.Script(ctx, createVersions); err != nil {
			return err
		}
		applied, err := compare(ctx, tx, steps)
		if err != nil {
			return err
		}
		for _, m := range steps[applied:] {
			if err := tx.Script(ctx, m.sql); err != nil {
				return fmt.Errorf("migration %d %s: %w", m.version, m.name, err)
			}
			if _, err := tx.Exec(ctx, insertVersion, m.version, m.name, m.checksum, now.UnixMicro()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("schema: %w", err)
	}
	return int64(len(steps)), nil
}

// Fingerprint names the tables that this binary knows on PostgreSQL: another text for other tables.
func Fingerprint() (string, error) {
	steps, err := readMigrations("migrations/postgres")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, m := range steps {
		_, _ = io.WriteString(sum, m.checksum)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Check reports whether db is exactly as this binary needs it. The error is [ErrEmpty], [ErrBehind], [ErrNewer] or a
// failure.
func Check(ctx context.Context, db *sqldb.DB) error {
	steps, err := migrations(db)
	if err != nil {
		return err
	}
	return check(ctx, db, steps)
}

func check(ctx context.Context, db *sqldb.DB, steps []migration) error {
	count := countTablesLite
	if db.IsPostgres() {
		count = countTablesPostgres
	}
	n, err := sqldb.One(ctx, db, sqldb.Scalar[int64], count)
	switch {
	case err != nil:
		return fmt.Errorf("schema: %w", err)
	case n == 0:
		return ErrEmpty
	}
	applied, err := compare(ctx, db, steps)
	switch {
	case err != nil:
		return fmt.Errorf("schema: %w", err)
	case applied == 0:
		return ErrEmpty
	case applied < len(steps):
		return ErrBehind
	}
	return nil
}

// Version returns how many steps db has taken.
func Version(ctx context.Context, db *sqldb.DB) (int64, error) {
	n, err := sqldb.One(ctx, db, sqldb.Scalar[int64], countVersions)
	if err != nil {
		return 0, fmt.Errorf("schema: %w", err)
	}
	return n, nil
}

// compare returns how many of the steps have been taken, after checking that they were these.
func compare(ctx context.Context, q sqldb.Querier, steps []migration) (int, error) {
	applied, err := sqldb.All(ctx, q, scanMigration, selectVersions)
	if err != nil {
		return 0, err
	}
	if len(applied) > len(steps) {
		return 0, ErrNewer
	}
	for i, m := range applied {
		if m.version != steps[i].version || m.checksum != steps[i].checksum {
			return 0, fmt.Errorf("migration %d %s was not the one in this binary: its checksum is another", m.version, m.name)
		}
	}
	return len(applied), nil
}

func scanMigration(r sqldb.Row) (m migration, err error) {
	err = r.Scan(&m.version, &m.name, &m.checksum)
	return m, err
}
