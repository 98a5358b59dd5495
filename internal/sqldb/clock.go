package sqldb

import (
	"context"
	"time"
)

const postgresClock = `SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)`

// Clock returns what the database's own clock shows: on SQLite, which has none, this machine's.
func (db *DB) Clock(ctx context.Context) (time.Time, error) {
	if db.now != nil {
		return db.now().UTC(), nil
	}
	if !db.IsPostgres() {
		return time.Now().UTC(), nil
	}
	micros, err := One(ctx, db, Scalar[int64], postgresClock)
	return time.UnixMicro(micros).UTC(), err
}
