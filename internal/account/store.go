package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Statements on the reference table account.
const (
	accountColumns = `account.id, account.name, account.document, account.created_at,
    account.status, account.kyc, account.api_cashin, account.api_cashout, account.api_payout, account.crypto, account.split,
    account.api_tx_limit, account.crypto_tx_limit, account.rate_limit, account.release_delay, account.disabled_resources,
    account.cash_in_fee, account.cash_out_fee, account.crypto_in_fee, account.crypto_out_fee`

	insertAccountSQL = `INSERT INTO account (id, name, document, created_at,
    status, kyc, api_cashin, api_cashout, api_payout, crypto, split,
    api_tx_limit, crypto_tx_limit, rate_limit, release_delay, disabled_resources,
    cash_in_fee, cash_out_fee, crypto_in_fee, crypto_out_fee)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
ON CONFLICT (id) DO NOTHING`

	updateSettingsSQL = `UPDATE account SET
    status = $2, kyc = $3, api_cashin = $4, api_cashout = $5, api_payout = $6, crypto = $7, split = $8,
    api_tx_limit = $9, crypto_tx_limit = $10, rate_limit = $11, release_delay = $12, disabled_resources = $13,
    cash_in_fee = $14, cash_out_fee = $15, crypto_in_fee = $16, crypto_out_fee = $17
WHERE id = $1`

	selectAccountSQL  = `SELECT ` + accountColumns + ` FROM account WHERE id = $1`
	lockAccountSQL    = selectAccountSQL + ` FOR NO KEY UPDATE`
	selectAccountsSQL = `SELECT ` + accountColumns + ` FROM account WHERE id > $1 ORDER BY id LIMIT $2`
	// What a search compares of each account; the rest is read of those that match.
	selectLatestSQL = `SELECT id, created_at, name, COALESCE(document, ''), status FROM account
WHERE (created_at, id) < ($1, $2) ORDER BY created_at DESC, id DESC LIMIT $3`
	countAccountsSQL = `SELECT COUNT(*) FROM account`
)

// Statements on the reference table api_key.
const (
	insertKeySQL = `INSERT INTO api_key (prefix, account_id, hash, scopes, created_at, once) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (prefix) DO NOTHING`

	selectSameKeySQL = `SELECT prefix FROM api_key WHERE prefix = $1 AND account_id = $2 AND hash = $3`
	selectPrefixSQL  = `SELECT prefix FROM api_key WHERE prefix = $1`
	selectOwnKeySQL  = `SELECT prefix FROM api_key WHERE prefix = $1 AND account_id = $2`
	selectOnceSQL    = `SELECT prefix FROM api_key WHERE account_id = $1 AND once = $2 LIMIT 1`
	countKeysSQL     = `SELECT COUNT(*) FROM api_key WHERE account_id = $1 AND revoked_at IS NULL`
	revokeKeySQL     = `UPDATE api_key SET revoked_at = $2 WHERE prefix = $1 AND revoked_at IS NULL RETURNING account_id`

	// Never earlier than another node has written.
	updateUseSQL = `UPDATE api_key SET used_at = $2 WHERE prefix = $1 AND (used_at IS NULL OR used_at < $2)`

	selectKeysSQL = `SELECT prefix, account_id, scopes, created_at, revoked_at, used_at
FROM api_key WHERE account_id = $1 ORDER BY created_at DESC, prefix LIMIT $2`

	selectEntrySQL = `SELECT api_key.hash, api_key.prefix, api_key.scopes, api_key.revoked_at, ` + accountColumns + `
FROM api_key JOIN account ON account.id = api_key.account_id WHERE api_key.prefix = $1`
)

// Statements on the reference table ip_block.
const (
	// A temporary block becomes permanent; a permanent one stays as it is.
	insertBlockSQL = `INSERT INTO ip_block (network, created_at) VALUES ($1, $2)
ON CONFLICT (network) DO UPDATE SET created_at = excluded.created_at, until_at = NULL WHERE ip_block.until_at IS NOT NULL`

	// A block is only ever made longer; the NULL of a permanent one compares as neither.
	insertTemporarySQL = `INSERT INTO ip_block (network, created_at, until_at) VALUES ($1, $2, $3)
ON CONFLICT (network) DO UPDATE SET until_at = excluded.until_at WHERE ip_block.until_at < excluded.until_at`

	countBlocksSQL   = `SELECT COUNT(*) FROM ip_block WHERE until_at IS NULL`
	deleteBlockSQL   = `DELETE FROM ip_block WHERE network = $1`
	deleteExpiredSQL = `DELETE FROM ip_block WHERE network = $1 AND until_at <= $2`
	selectBlocksSQL  = `SELECT network, created_at FROM ip_block WHERE until_at IS NULL ORDER BY network LIMIT $1`

	// Permanent ones first, so that a flood of temporary ones never pushes one out.
	selectNetworksSQL = `SELECT network, until_at FROM ip_block ORDER BY until_at DESC NULLS FIRST LIMIT $1`
)

// insertAccount reports whether a was stored; it is not when its number is taken.
func insertAccount(ctx context.Context, tx *sqldb.Tx, a Account) (bool, error) {
	var document *string
	if a.Document != "" {
		document = &a.Document
	}
	args := append([]any{a.ID, a.Name, document, a.CreatedAt.UnixMicro()}, settingsArgs(a.Settings)...)
	n, err := tx.Exec(ctx, insertAccountSQL, args...)
	return n == 1, err
}

func updateSettings(ctx context.Context, tx *sqldb.Tx, a Account) error {
	n, err := tx.Exec(ctx, updateSettingsSQL, append([]any{a.ID}, settingsArgs(a.Settings)...)...)
	if err == nil && n != 1 {
		err = fmt.Errorf("%d accounts %s in the database", n, a.ID)
	}
	return err
}

// settingsArgs returns the settings in the order of their columns.
func settingsArgs(s Settings) []any {
	disabled := ""
	if s.Disabled != 0 {
		disabled = s.Disabled.String()
	}
	return []any{
		string(s.Status), string(s.KYC), s.APICashin, s.APICashout, s.APIPayout, s.Crypto, s.Split,
		orNull(int64(s.APITxLimit)), orNull(int64(s.CryptoTxLimit)), s.RateLimit, s.ReleaseDelay.Microseconds(), disabled,
		s.CashInFee.String(), s.CashOutFee.String(), s.CryptoInFee.String(), s.CryptoOutFee.String(),
	}
}

// orNull returns NULL for zero.
func orNull(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

func getAccount(ctx context.Context, q sqldb.Querier, account id.Account) (Account, error) {
	return oneAccount(ctx, q, selectAccountSQL, account)
}

// lockAccount is getAccount until the end of the transaction.
func lockAccount(ctx context.Context, tx *sqldb.Tx, account id.Account) (Account, error) {
	return oneAccount(ctx, tx, lockAccountSQL, account)
}

func oneAccount(ctx context.Context, q sqldb.Querier, sql string, account id.Account) (Account, error) {
	a, err := sqldb.One(ctx, q, scanAccount, sql, account)
	if errors.Is(err, sqldb.ErrNoRows) {
		err = refuse(fault.NotFound, "no account %s", account)
	}
	return a, err
}

func listAccounts(ctx context.Context, q sqldb.Querier, after id.Account, limit int) ([]Account, error) {
	return sqldb.All(ctx, q, scanAccount, selectAccountsSQL, after, limit)
}

func scanAccount(r sqldb.Row) (Account, error) {
	var row accountRow
	if err := r.Scan(row.columns()...); err != nil {
		return Account{}, err
	}
	return row.account()
}

// accountRow is an account as it is stored.
type accountRow struct {
	a            Account
	document     *string
	createdAt    int64
	apiLimit     *int64
	cryptoLimit  *int64
	releaseDelay int64
	disabled     string
	cashIn       string
	cashOut      string
	cryptoIn     string
	cryptoOut    string
}

// columns returns where to scan accountColumns.
func (r *accountRow) columns() []any {
	s := &r.a.Settings
	return []any{
		&r.a.ID, &r.a.Name, &r.document, &r.createdAt,
		&s.Status, &s.KYC, &s.APICashin, &s.APICashout, &s.APIPayout, &s.Crypto, &s.Split,
		&r.apiLimit, &r.cryptoLimit, &s.RateLimit, &r.releaseDelay, &r.disabled,
		&r.cashIn, &r.cashOut, &r.cryptoIn, &r.cryptoOut,
	}
}

// account returns the account that was scanned.
func (r *accountRow) account() (Account, error) {
	a := r.a
	if r.document != nil {
		a.Document = *r.document
	}
	a.CreatedAt = fromMicro(r.createdAt)
	if r.apiLimit != nil {
		a.Settings.APITxLimit = money.BRL(*r.apiLimit)
	}
	if r.cryptoLimit != nil {
		a.Settings.CryptoTxLimit = money.USDT(*r.cryptoLimit)
	}
	a.Settings.ReleaseDelay = time.Duration(r.releaseDelay) * time.Microsecond
	for _, written := range []Setting{
		{"disabled_resources", cmp.Or(r.disabled, none)},
		{"cash_in_fee", r.cashIn},
		{"cash_out_fee", r.cashOut},
		{"crypto_in_fee", r.cryptoIn},
		{"crypto_out_fee", r.cryptoOut},
	} {
		if err := a.Settings.set(written.Key, written.Value); err != nil {
			return Account{}, broken("settings of "+a.ID.String(), err)
		}
	}
	return a, nil
}

// insertKey reports whether k was stored; it is not when its prefix is taken.
func insertKey(ctx context.Context, tx *sqldb.Tx, k freshKey) (bool, error) {
	var once *string
	if k.once != "" {
		once = &k.once
	}
	n, err := tx.Exec(ctx, insertKeySQL, k.Prefix, k.Account, k.hash[:], k.Scopes.String(), k.CreatedAt.UnixMicro(), once)
	return n == 1, err
}

// hasKey reports whether that very key is stored.
func hasKey(ctx context.Context, tx *sqldb.Tx, k freshKey) (bool, error) {
	_, err := sqldb.One(ctx, tx, sqldb.Scalar[string], selectSameKeySQL, k.Prefix, k.Account, k.hash[:])
	if errors.Is(err, sqldb.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// revokeKey ends a key and returns whose it was, or 0 when it had ended before.
func revokeKey(ctx context.Context, tx *sqldb.Tx, prefix string, now time.Time) (id.Account, error) {
	ended, err := sqldb.All(ctx, tx, sqldb.Scalar[id.Account], revokeKeySQL, prefix, now.UnixMicro())
	if err != nil || len(ended) == 1 {
		return append(ended, 0)[0], err
	}
	_, err = sqldb.One(ctx, tx, sqldb.Scalar[string], selectPrefixSQL, prefix)
	if errors.Is(err, sqldb.ErrNoRows) {
		err = refuse(fault.NotFound, "no key %s", prefix)
	}
	return 0, err
}

func listKeys(ctx context.Context, q sqldb.Querier, account id.Account, limit int) ([]Key, error) {
	return sqldb.All(ctx, q, scanKey, selectKeysSQL, account, limit)
}

func scanKey(r sqldb.Row) (Key, error) {
	var k Key
	var scopes string
	var createdAt int64
	var revokedAt, usedAt *int64
	if err := r.Scan(&k.Prefix, &k.Account, &scopes, &createdAt, &revokedAt, &usedAt); err != nil {
		return Key{}, err
	}
	k.CreatedAt = fromMicro(createdAt)
	if revokedAt != nil {
		k.RevokedAt = fromMicro(*revokedAt)
	}
	if usedAt != nil {
		k.UsedAt = fromMicro(*usedAt)
	}
	var err error
	k.Scopes, err = storedScopes(k.Prefix, scopes)
	return k, err
}

func storedScopes(prefix, names string) (Scopes, error) {
	s, err := parseScopes(names)
	if err != nil {
		return 0, broken("scopes of key "+prefix, err)
	}
	return s, nil
}

// findEntry returns the key with that prefix and its account, or nil.
func findEntry(ctx context.Context, q sqldb.Querier, prefix string) (*entry, error) {
	e, err := sqldb.One(ctx, q, scanEntry, selectEntrySQL, prefix)
	if errors.Is(err, sqldb.ErrNoRows) {
		return nil, nil
	}
	return e, err
}

func scanEntry(r sqldb.Row) (*entry, error) {
	var e entry
	var row accountRow
	var sum []byte
	var scopes string
	var revokedAt *int64
	if err := r.Scan(append([]any{&sum, &e.principal.KeyPrefix, &scopes, &revokedAt}, row.columns()...)...); err != nil {
		return nil, err
	}
	if len(sum) != len(e.hash) {
		return nil, broken("hash of key "+e.principal.KeyPrefix, fmt.Errorf("%d bytes", len(sum)))
	}
	e.hash = secretHash(sum)
	e.revoked = revokedAt != nil
	var err error
	if e.principal.Scopes, err = storedScopes(e.principal.KeyPrefix, scopes); err != nil {
		return nil, err
	}
	e.principal.Account, err = row.account()
	return &e, err
}

// insertBlock blocks a network for good and returns how many are.
func insertBlock(ctx context.Context, tx *sqldb.Tx, network netip.Prefix, now time.Time) (int64, error) {
	tx.Queue(ctx, insertBlockSQL, network.String(), now.UnixMicro())
	return sqldb.One(ctx, tx, sqldb.Scalar[int64], countBlocksSQL)
}

// insertTemporary blocks a network until then, unless it is blocked for longer.
func insertTemporary(ctx context.Context, tx *sqldb.Tx, network netip.Prefix, now, until int64) {
	tx.Queue(ctx, insertTemporarySQL, network.String(), now, until)
}

// deleteBlock reports whether the network was blocked.
func deleteBlock(ctx context.Context, tx *sqldb.Tx, network netip.Prefix) (bool, error) {
	n, err := tx.Exec(ctx, deleteBlockSQL, network.String())
	return n > 0, err
}

// deleteExpired ends the block of a network, unless it was made longer.
func deleteExpired(ctx context.Context, tx *sqldb.Tx, network netip.Prefix, now int64) {
	tx.Queue(ctx, deleteExpiredSQL, network.String(), now)
}

func listBlocks(ctx context.Context, q sqldb.Querier, limit int) ([]Block, error) {
	return sqldb.All(ctx, q, scanBlock, selectBlocksSQL, limit)
}

func scanBlock(r sqldb.Row) (Block, error) {
	var network string
	var createdAt int64
	if err := r.Scan(&network, &createdAt); err != nil {
		return Block{}, err
	}
	p, err := netip.ParsePrefix(network)
	return Block{Network: p, CreatedAt: fromMicro(createdAt)}, err
}

// networkBlock is a blocked network, for good or for a time.
type networkBlock struct {
	network netip.Prefix
	until   int64 // business microseconds UTC, or forever
}

func listNetworks(ctx context.Context, q sqldb.Querier, limit int) ([]networkBlock, error) {
	return sqldb.All(ctx, q, scanNetwork, selectNetworksSQL, limit)
}

func scanNetwork(r sqldb.Row) (networkBlock, error) {
	var network string
	var until *int64
	if err := r.Scan(&network, &until); err != nil {
		return networkBlock{}, err
	}
	if until == nil {
		until = new(int64(forever))
	}
	p, err := netip.ParsePrefix(network)
	return networkBlock{p, *until}, err
}

// fromMicro returns a stored time.
func fromMicro(n int64) time.Time { return time.UnixMicro(n).UTC() }

// broken returns a failure to read what is stored. It does not wrap err, which would blame a caller.
func broken(what string, err error) error {
	return errors.New("the database holds bad " + what + ": " + err.Error())
}
