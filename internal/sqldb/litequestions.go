package sqldb

import "context"

// A reader of SQLite that finds the file changed since its last look reads its pages anew, and under load it always is: for a
// question about a key that is most of the work. So those who ask at the same moment share one look.

// liteQuestionsMax is how many share a look.
const liteQuestionsMax = 64

// liteQuestions answers questions, each with what was there when it was asked or later.
type liteQuestions struct {
	readers *readers
	rides   rides[*question]
}

func newLiteQuestions(r *readers) *liteQuestions {
	return &liteQuestions{readers: r, rides: rides[*question]{leadsMax: 1, seats: liteQuestionsMax, isShort: true}}
}

// ask answers q, or leaves it for who asked.
func (l *liteQuestions) ask(ctx context.Context, q *question) error {
	return l.rides.ride(ctx, q, l.look)
}

// look answers all who wait.
func (l *liteQuestions) look(ctx context.Context, _ *question, board func() []*question) {
	c, err := l.readers.takeFree(ctx)
	all := board()
	if err != nil {
		return // each asks for itself, and waits as long as it may
	}
	ended := true
	defer func() { l.readers.put(c, ended) }()
	if len(all) > 1 {
		if _, err := c.exec(ctx, `BEGIN`, nil); err != nil {
			return
		}
		defer func() {
			_, err := c.exec(ctx, `ROLLBACK`, nil)
			ended = err == nil
		}()
	}
	for _, q := range all {
		err := c.query(ctx, q.sql, q.args, func(Row) error { q.found = true; return nil })
		q.answered = err == nil
	}
}
