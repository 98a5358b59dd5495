package ponte_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/schema"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// The rules that every SQL statement of Ponte keeps, so that one text means the same on SQLite, on PostgreSQL and on a
// PostgreSQL that is sharded by account. A statement is a constant of a package that starts with one of the words in
// isSQL, in capitals.

// ownDialect are statements for one database only, by package and constant, each with its reason.
var ownDialect = map[string]string{
	"schema.lockMigrations":      "advisory locks are PostgreSQL's; SQLite has one writer anyway",
	"schema.countTablesLite":     "each database lists its tables in its own way",
	"schema.countTablesPostgres": "each database lists its tables in its own way",
}

// dialectFolders may write SQL as they like: they are where the dialects meet.
var dialectFolders = map[string]string{
	"internal/sqldb":         "is what hides the two databases",
	"internal/sqldb/sqltest": "makes and drops databases for tests",
	"internal/bench":         "writes scripts for pgbench, which speaks PostgreSQL",
	"internal/sim":           "reads whole tables, of lives that leave few rows",
	"internal/sim/auditor":   "the same, without an account: it audits all of them",
}

// uncounted are changes of charges that do not set refunded, by which the database counts changes of paid ones: nodes tell
// paid charges from copies while that count stays the same.
var uncounted = map[string]string{
	"charge.updatePaid":     "it was not paid before",
	"charge.updateStatus":   "nothing that is paid moves by it",
	"charge.updateReleased": "nobody is shown when money is released",
	"charge.unbindKey":      "nobody is shown the key",
}

// boundedWithoutLimit are queries without LIMIT that return few rows for another reason than their key.
var boundedWithoutLimit = map[string]string{
	"ledger.selectBalances": "an account has four books in a currency",
	"ledger.sumTransfers":   "one row for each currency and pair of books",

	"ledger.sumTransfersSince": "one row for each currency and pair of books",
}

var (
	isSQL     = regexp.MustCompile(`^\s*(?:SELECT|INSERT INTO [a-z_]|UPDATE [a-z_]|DELETE FROM [a-z_]|WITH [a-z_])`)
	tableName = regexp.MustCompile(`\b(?:FROM|JOIN|INTO|UPDATE)\s+([a-z_]+)`)
	fromTable = regexp.MustCompile(`\bFROM\s+([a-z_]+)`)
	columns   = regexp.MustCompile(`^\s*INSERT INTO [a-z_]+ \(([^)]*)\)`)
	ownTenant = regexp.MustCompile(`\baccount_id = \$\d`)
	equals    = regexp.MustCompile(`(?:[a-z_]+\.)?\b([a-z_]+) = (?:\$\d+|'[^']*')`)
	aggregate = regexp.MustCompile(`^\s*SELECT (?:COUNT|EXISTS|MAX|MIN|CAST|COALESCE) ?\(`)
	locks     = regexp.MustCompile(`\bFOR (?:NO KEY )?UPDATE\b`)
	// oneRow is what sqldb takes for the change of one row, and joins with others of its text. It counts the rows.
	oneRow = regexp.MustCompile(`(?s)^UPDATE ([a-z_]+) SET .+\sWHERE (account_id = \$\d+ AND ` +
		`(?:id = \$\d+|event_id = \$\d+ AND endpoint_id = \$\d+|currency = \$\d+ AND book = \$\d+))\b`)
)

// forbidden is what the two databases understand differently, or one of them not at all.
var forbidden = []struct {
	is  *regexp.Regexp
	why string
}{
	{regexp.MustCompile(`(?i)\bnow\(\)|\bcurrent_timestamp\b`), "the time comes from clock, as an argument"},
	{regexp.MustCompile(`::`), "SQLite has no ::, write CAST(x AS t)"},
	{regexp.MustCompile(`(?i)\bI?LIKE\b`), "LIKE ignores case on SQLite and not on PostgreSQL"},
	{regexp.MustCompile(`(?i)\bANY ?\(`), "SQLite has no arrays"},
	{regexp.MustCompile(`->`), "JSON operators differ"},
	{regexp.MustCompile(`(?is)^\s*WITH\b.*\b(?:INSERT|UPDATE|DELETE)\b`), "SQLite cannot change data inside WITH"},
	{regexp.MustCompile(`(?i)\bRANDOM\(`), "randomness is injected"},
}

// statement is one constant.
type statement struct {
	name string // package.constant
	sql  string
	at   token.Position
}

func TestSQL(t *testing.T) {
	t.Parallel()
	statements := findSQL(t)
	if len(statements) < 20 {
		t.Fatalf("only %d statements were found: the test looks in the wrong place", len(statements))
	}
	lite, postgres := sqltest.Open(t, sqltest.SQLite(t)), sqltest.Open(t, sqltest.Postgres(t))
	keys := uniqueKeys(t, lite)
	names := map[string]bool{}
	for _, s := range statements {
		names[s.name] = true
		if ownDialect[s.name] != "" {
			continue
		}
		for _, db := range []*sqldb.DB{lite, postgres} {
			if err := sqltest.Prepare(t.Context(), db, s.sql); err != nil {
				t.Errorf("%s: %s: %v", s.at, s.name, err)
			}
		}
		for _, problem := range s.problems(keys) {
			t.Errorf("%s: %s: %s", s.at, s.name, problem)
		}
	}
	for _, list := range []map[string]string{ownDialect, uncounted, boundedWithoutLimit, schema.Finds} {
		for name, reason := range list {
			if !names[name] {
				t.Errorf("%s is excepted (%s) and does not exist", name, reason)
			}
		}
	}
}

// The rules can fail: each of these breaks one.
func TestSQLRules(t *testing.T) {
	t.Parallel()
	keys := map[string][][]string{"transfer": {{"account_id", "id"}}, "charge": {{"account_id", "id"}}, "clock": {{"name"}}}
	for sql, want := range map[string]string{
		`SELECT id FROM transfer WHERE id = $1 LIMIT 1`:                                                  "tenant",
		`SELECT d.id FROM clock c JOIN delta d ON d.account_id = c.x WHERE c.name = $1`:                  "tenant",
		`UPDATE balance SET amount = $1 WHERE book = $2`:                                                 "tenant",
		`DELETE FROM delta WHERE id = $1`:                                                                "tenant",
		`INSERT INTO delta (currency, book) VALUES ($1, $2)`:                                             "tenant",
		`INSERT INTO delta SELECT * FROM delta`:                                                          "tenant",
		`SELECT SUM(amount) FROM transfer WHERE account_id = $1 LIMIT 1`:                                 "SUM",
		`UPDATE clock SET offset_us = now() WHERE name = $1`:                                             "clock",
		`SELECT name::text FROM clock WHERE name = $1`:                                                   "CAST",
		`SELECT name FROM clock WHERE name LIKE $1 LIMIT 1`:                                              "LIKE",
		`SELECT name FROM clock WHERE name = ANY($1) LIMIT 1`:                                            "arrays",
		`WITH gone AS (DELETE FROM clock RETURNING name) SELECT name FROM gone LIMIT 1`:                  "WITH",
		`SELECT name FROM clock`:                                                                         "LIMIT",
		`SELECT id FROM transfer WHERE account_id = $1`:                                                  "LIMIT",
		`SELECT COUNT(*) FROM clock GROUP BY name`:                                                       "LIMIT",
		`UPDATE delta SET amount = $1 WHERE account_id = $2 AND currency = $3 AND book = $4 AND id = $5`: "one row",
		`UPDATE charge SET status = $1 WHERE account_id = $2 AND refunded = $3 AND id = $4`:              "copies",
	} {
		got := statement{name: "test.test", sql: sql}.problems(keys)
		if len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s\ngot %q, want one about %s", sql, got, want)
		}
	}
	for _, sql := range []string{
		`SELECT amount FROM transfer WHERE account_id = $1 AND id = $2`,
		`SELECT amount FROM transfer t WHERE t.account_id = $1 AND t.id = $2 FOR NO KEY UPDATE`,
		`SELECT COALESCE(CAST(SUM(amount) AS BIGINT), 0) FROM transfer WHERE account_id = $1`,
		`INSERT INTO delta (account_id, currency) VALUES ($1, $2)`,
		`DELETE FROM clock`,
		`UPDATE transfer SET amount = $1 WHERE account_id = $2 AND id = $3 AND amount = $4`,
	} {
		if got := (statement{name: "test.test", sql: sql}).problems(keys); got != nil {
			t.Errorf("%s\ngot %q", sql, got)
		}
	}
}

// problems returns the rules that a statement breaks.
func (s statement) problems(keys map[string][][]string) (problems []string) {
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, f := range forbidden {
		if f.is.MatchString(s.sql) {
			complain("%s", f.why)
		}
	}
	if strings.Count(s.sql, "SUM(") != strings.Count(s.sql, "CAST(SUM(") {
		complain("SUM of BIGINT is no BIGINT on PostgreSQL: write CAST(SUM(x) AS BIGINT)")
	}
	isFind := schema.Finds[s.name] != ""
	if isFind && (!strings.HasPrefix(s.sql, "SELECT") || !strings.Contains(s.sql, "LIMIT") || locks.MatchString(s.sql)) {
		complain("a find is one bounded read without locks")
	}
	if !isFind && s.missesTenant() {
		complain("a statement on a tenant table needs account_id = $n, or account_id among what it inserts, or a reason in schema.Finds")
	}
	sets, _, _ := strings.Cut(s.sql, "WHERE")
	if strings.HasPrefix(sets, "UPDATE charge SET") && !strings.Contains(sets, " refunded = ") && uncounted[s.name] == "" {
		complain("a change of a charge sets refunded, so that copies of paid ones are not told any more, or has a reason in uncounted")
	}
	if isSelect := strings.HasPrefix(strings.TrimSpace(s.sql), "SELECT"); isSelect && !s.isBounded(keys) {
		complain("a query needs LIMIT, or = for each column of a key, or only aggregates, or a reason in boundedWithoutLimit")
	}
	if one := oneRow.FindStringSubmatch(s.sql); one != nil && !fixes(one[2], keys[one[1]]) {
		complain("it reads as the change of one row, but those columns are no key of its table")
	}
	return problems
}

// missesTenant reports whether a statement touches a table of accounts and does not say which account's.
func (s statement) missesTenant() bool {
	touches := slices.ContainsFunc(tableName.FindAllStringSubmatch(s.sql, -1), func(m []string) bool {
		return schema.Tables[m[1]] == schema.Tenant
	})
	if !touches {
		return false
	}
	if inserts := strings.HasPrefix(strings.TrimSpace(s.sql), "INSERT"); inserts {
		list := columns.FindStringSubmatch(s.sql)
		return list == nil || !slices.Contains(strings.Fields(strings.ReplaceAll(list[1], ",", " ")), "account_id")
	}
	return !ownTenant.MatchString(s.sql)
}

func (s statement) isBounded(keys map[string][][]string) bool {
	if strings.Contains(s.sql, "LIMIT") || boundedWithoutLimit[s.name] != "" {
		return true
	}
	if aggregate.MatchString(s.sql) && !strings.Contains(s.sql, "GROUP BY") {
		return true
	}
	from := fromTable.FindStringSubmatch(s.sql)
	if from == nil {
		return true // reads no table
	}
	return fixes(s.sql, keys[from[1]])
}

// fixes reports whether a text has = for each column of a key.
func fixes(sql string, keys [][]string) bool {
	fixed := map[string]bool{}
	for _, m := range equals.FindAllStringSubmatch(sql, -1) {
		fixed[m[1]] = true
	}
	return slices.ContainsFunc(keys, func(key []string) bool {
		return !slices.ContainsFunc(key, func(column string) bool { return !fixed[column] })
	})
}

// uniqueKeys returns for each table the sets of columns of which a row is the only one.
func uniqueKeys(t *testing.T, db *sqldb.DB) map[string][][]string {
	t.Helper()
	type part struct{ table, index, column string }
	parts, err := sqldb.All(t.Context(), db, func(r sqldb.Row) (p part, err error) {
		err = r.Scan(&p.table, &p.index, &p.column)
		return p, err
	}, `SELECT m.name, l.name, i.name FROM sqlite_master m, pragma_index_list(m.name) l, pragma_index_info(l.name) i
WHERE m.type = 'table' AND l."unique" = 1
UNION ALL SELECT m.name, 'rowid', c.name FROM sqlite_master m, pragma_table_info(m.name) c
WHERE m.type = 'table' AND c.pk > 0 AND NOT EXISTS (SELECT 1 FROM pragma_index_list(m.name) l WHERE l.origin = 'pk')`)
	if err != nil {
		t.Fatal(err)
	}
	byIndex := map[part][]string{}
	for _, p := range parts {
		index := part{table: p.table, index: p.index}
		byIndex[index] = append(byIndex[index], p.column)
	}
	keys := map[string][][]string{}
	for index, columns := range byIndex {
		keys[index.table] = append(keys[index.table], columns)
	}
	return keys
}

// findSQL returns every statement of the packages under internal and cmd, and fails for SQL that is no constant.
func findSQL(t *testing.T) []statement {
	t.Helper()
	folders := map[string][]*ast.File{}
	files := token.NewFileSet()
	for _, root := range []string{"internal", "cmd"} {
		err := fs.WalkDir(os.DirFS("."), root, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			if dialectFolders[path.Dir(name)] != "" {
				return nil
			}
			file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
			folders[path.Dir(name)] = append(folders[path.Dir(name)], file)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var all []statement
	for _, parsed := range folders {
		all = append(all, findInPackage(t, files, parsed)...)
	}
	slices.SortFunc(all, func(a, b statement) int { return strings.Compare(a.name, b.name) })
	return all
}

func findInPackage(t *testing.T, files *token.FileSet, parsed []*ast.File) (all []statement) {
	t.Helper()
	constants := map[string]ast.Expr{}
	var others []ast.Node // everything that is no constant of the package
	for _, file := range parsed {
		for _, decl := range file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				others = append(others, decl)
				continue
			}
			for _, spec := range group.Specs {
				spec, ok := spec.(*ast.ValueSpec)
				for i := range spec.Values {
					if ok {
						constants[spec.Names[i].Name] = spec.Values[i]
					}
				}
			}
		}
	}
	for name, expr := range constants {
		sql, whole := text(expr, constants)
		if !isSQL.MatchString(sql) {
			continue
		}
		s := statement{name: parsed[0].Name.Name + "." + name, sql: sql, at: files.Position(expr.Pos())}
		if !whole {
			t.Errorf("%s: %s is put together from something else than constants of its package", s.at, s.name)
			continue
		}
		all = append(all, s)
	}
	for _, node := range others {
		ast.Inspect(node, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok {
				if sql, _ := text(literal, nil); isSQL.MatchString(sql) {
					t.Errorf("%s: SQL is a constant of its package, with a name", files.Position(n.Pos()))
				}
			}
			return true
		})
	}
	return all
}

// text returns the value of a string constant, or as much of it as is known and false.
func text(expr ast.Expr, constants map[string]ast.Expr) (value string, whole bool) {
	switch expr := expr.(type) {
	case *ast.BasicLit:
		value, err := strconv.Unquote(expr.Value)
		return value, err == nil && expr.Kind == token.STRING
	case *ast.ParenExpr:
		return text(expr.X, constants)
	case *ast.Ident:
		if of := constants[expr.Name]; of != nil {
			return text(of, constants)
		}
	case *ast.BinaryExpr:
		left, wholeLeft := text(expr.X, constants)
		right, wholeRight := text(expr.Y, constants)
		return left + right, wholeLeft && wholeRight && expr.Op == token.ADD
	}
	return "", false
}
