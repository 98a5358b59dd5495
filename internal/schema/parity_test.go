package schema_test

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/schema"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// table is what both databases must agree on, in words that belong to neither.
type table struct {
	Columns []column // in order
	Key     []string // the primary key
	Indexes map[string]index
}

type column struct {
	Name    string
	Type    string // INTEGER, TEXT or BLOB
	NotNull bool
}

type index struct {
	Unique  bool
	Columns []string // with DESC
	Where   string   // of a partial one
}

// types maps each type that may be used to the one that SQLite stores it as.
var types = map[string]string{
	"INTEGER": "INTEGER", "BIGINT": "INTEGER", "BOOLEAN": "INTEGER",
	"TEXT": "TEXT",
	"BLOB": "BLOB", "UUID": "BLOB", "BYTEA": "BLOB",
}

func all[T any](t *testing.T, db *sqldb.DB, scan func(sqldb.Row) (T, error), sql string, args ...any) []T {
	t.Helper()
	rows, err := sqldb.All(t.Context(), db, scan, sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return rows
}

func tables(t *testing.T, db *sqldb.DB) []string {
	t.Helper()
	sql := `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name`
	if db.IsPostgres() {
		sql = `SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename`
	}
	names := all(t, db, sqldb.Scalar[string], sql)
	slices.Sort(names)
	return names
}

func TestParity(t *testing.T) {
	t.Parallel()
	lite, postgres := sqltest.Open(t, sqltest.SQLite(t)), sqltest.Open(t, sqltest.Postgres(t))
	got := map[string]map[string]table{"sqlite": {}, "postgres": {}}
	for _, name := range tables(t, lite) {
		got["sqlite"][name] = describeLite(t, lite, name)
	}
	for _, name := range tables(t, postgres) {
		got["postgres"][name] = describePostgres(t, postgres, name)
	}
	if diff := gocmp.Diff(got["sqlite"], got["postgres"]); diff != "" {
		t.Errorf("the two schemas differ (-sqlite +postgres):\n%s", diff)
	}

	declared := map[string]bool{}
	for name := range schema.Tables {
		declared[name] = true
	}
	for name, described := range got["postgres"] {
		if !declared[name] {
			t.Errorf("table %s is not in schema.Tables", name)
		}
		delete(declared, name)
		if schema.Tables[name] != schema.Tenant {
			continue
		}
		// Sharding by account needs it first in every unique index; it is the tenancy guard and the index order too.
		if described.Key[0] != "account_id" {
			t.Errorf("the key of %s, a tenant table, starts with %s", name, described.Key[0])
		}
		for name, i := range described.Indexes {
			if i.Unique && i.Columns[0] != "account_id" {
				t.Errorf("the unique index %s of a tenant table starts with %s", name, i.Columns[0])
			}
		}
	}
	for name := range declared {
		t.Errorf("schema.Tables has %s, the databases do not", name)
	}
}

func describeLite(t *testing.T, db *sqldb.DB, name string) table {
	t.Helper()
	described := table{Indexes: map[string]index{}}
	keys := map[int64]string{}
	for _, c := range all(t, db, func(r sqldb.Row) (c struct {
		column
		key int64
	}, err error,
	) {
		err = r.Scan(&c.Name, &c.Type, &c.NotNull, &c.key)
		return c, err
	}, `SELECT name, type, "notnull", pk FROM pragma_table_info($1) ORDER BY cid`, name) {
		c.Type = cmp.Or(types[strings.ToUpper(c.Type)], "unknown type "+c.Type)
		described.Columns = append(described.Columns, c.column)
		if c.key > 0 {
			keys[c.key] = c.Name
		}
	}
	for i := range int64(len(keys)) {
		described.Key = append(described.Key, keys[i+1])
	}
	for _, name := range all(t, db, sqldb.Scalar[string], `SELECT name FROM pragma_index_list($1) WHERE origin <> 'pk'`, name) {
		var i index
		i.Columns = all(t, db, sqldb.Scalar[string],
			`SELECT name || CASE "desc" WHEN 1 THEN ' DESC' ELSE '' END FROM pragma_index_xinfo($1) WHERE key = 1 ORDER BY seqno`, name)
		sql := all(t, db, sqldb.Scalar[string], `SELECT sql FROM sqlite_master WHERE type = 'index' AND name = $1`, name)
		if len(sql) != 1 {
			t.Fatalf("index %s has no name of its own", name) // a UNIQUE constraint: write CREATE UNIQUE INDEX
		}
		i.Unique = strings.HasPrefix(sql[0], "CREATE UNIQUE")
		_, i.Where, _ = strings.Cut(sql[0], " WHERE ")
		described.Indexes[name] = i
	}
	return described
}

func describePostgres(t *testing.T, db *sqldb.DB, name string) table {
	t.Helper()
	described := table{Indexes: map[string]index{}}
	described.Columns = all(t, db, func(r sqldb.Row) (c column, err error) {
		err = r.Scan(&c.Name, &c.Type, &c.NotNull)
		c.Type = cmp.Or(types[strings.ToUpper(c.Type)], "unknown type "+c.Type)
		return c, err
	}, `SELECT attname::text, CASE format_type(atttypid, atttypmod) WHEN 'integer' THEN 'int4, which is too small'
ELSE format_type(atttypid, atttypmod) END, attnotnull
FROM pg_attribute WHERE attrelid = CAST($1 AS text)::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, name)

	type part struct {
		index, column, where, collation string
		unique, primary                 bool
	}
	for _, p := range all(t, db, func(r sqldb.Row) (p part, err error) {
		err = r.Scan(&p.index, &p.column, &p.unique, &p.primary, &p.where, &p.collation)
		return p, err
	}, `SELECT c.relname::text, a.attname || CASE WHEN i.indoption[k.n - 1] & 1 = 1 THEN ' DESC' ELSE '' END, i.indisunique, i.indisprimary,
COALESCE(pg_get_expr(i.indpred, i.indrelid), ''), CASE WHEN a.atttypid = 'text'::regtype THEN l.collname::text ELSE 'C' END
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY k (attnum, n)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
LEFT JOIN pg_collation l ON l.oid = a.attcollation
WHERE i.indrelid = CAST($1 AS text)::regclass ORDER BY c.relname, k.n`, name) {
		if p.collation != "C" {
			t.Errorf(`%s.%s is in an index and not COLLATE "C": it would sort unlike SQLite`, name, p.column)
		}
		if p.primary {
			described.Key = append(described.Key, p.column)
			continue
		}
		i := described.Indexes[p.index]
		described.Indexes[p.index] = index{Unique: p.unique, Columns: append(i.Columns, p.column), Where: plain(p.where)}
	}
	return described
}

var (
	anyArray = regexp.MustCompile(`= ANY \(ARRAY\[([^]]*)\]\)`)
	casts    = regexp.MustCompile(`::[a-z]+`)
)

// plain writes a condition as people do: PostgreSQL shows it with casts, arrays and a pair of parentheses.
func plain(where string) string {
	where = casts.ReplaceAllString(where, "")
	where = anyArray.ReplaceAllString(where, "IN ($1)")
	if strings.HasPrefix(where, "(") && strings.HasSuffix(where, ")") {
		where = where[1 : len(where)-1]
	}
	return where
}

// Every column says what it is, in the same words for both databases, and is checked alike.
func TestColumnComments(t *testing.T) {
	t.Parallel()
	lite := documented(t, append(texts(t, schema.FolderSQLite), schema.CreateVersions))
	postgres := documented(t, append(texts(t, schema.FolderPostgres), schema.CreateVersions))
	if diff := gocmp.Diff(lite, postgres); diff != "" {
		t.Errorf("the two schemas say different things (-sqlite +postgres):\n%s", diff)
	}
	if len(lite) < len(schema.Tables) {
		t.Errorf("only %d tables were read", len(lite))
	}
}

func texts(t *testing.T, folder string) []string {
	t.Helper()
	texts, err := schema.Texts(folder)
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

var (
	tableBegin = regexp.MustCompile(`^CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?([a-z_]+) \($`)
	columnLine = regexp.MustCompile(`^    ([a-z_]+) +([A-Z]+)(.*?),? *(?:-- (.+))?$`)
	boolCheck  = regexp.MustCompile(`CHECK \([a-z_]+ IN \(0, 1\)\)`)
	anyCheck   = regexp.MustCompile(`CHECK \(.*\)`)
)

// documented returns for each table what its text says about its columns: checks and comments.
func documented(t *testing.T, texts []string) map[string][]string {
	t.Helper()
	tables := map[string][]string{}
	name := ""
	for line := range strings.SplitSeq(strings.Join(texts, "\n"), "\n") {
		if begin := tableBegin.FindStringSubmatch(line); begin != nil {
			name = begin[1]
			delete(tables, name) // one that is made again is what it was made last
			continue
		}
		if strings.HasPrefix(line, ")") {
			name = ""
		}
		if name == "" {
			continue
		}
		parts := columnLine.FindStringSubmatch(line)
		if parts == nil {
			tables[name] = append(tables[name], strings.Trim(line, " ,")) // a rule of the whole table
			continue
		}
		column, kind, rest, comment := parts[1], parts[2], parts[3], parts[4]
		if comment == "" {
			t.Errorf("%s.%s has no comment", name, column)
		}
		check := anyCheck.FindString(rest)
		if kind == "BOOLEAN" || boolCheck.MatchString(check) {
			check = "BOOLEAN" // which SQLite has to be told by a check
		}
		tables[name] = append(tables[name], fmt.Sprintf("%s: %s: %s", column, check, comment))
	}
	return tables
}

// SQLite must refuse a text where a number belongs, as PostgreSQL does.
func TestStrict(t *testing.T) {
	t.Parallel()
	db := sqltest.Open(t, sqltest.SQLite(t))
	for _, name := range all(t, db, sqldb.Scalar[string], `SELECT name FROM pragma_table_list WHERE type = 'table' AND strict = 0
AND name NOT LIKE 'sqlite_%' AND name <> 'schema_version' ORDER BY name`) {
		t.Errorf("table %s is not STRICT", name)
	}
}
