package bench

import "context"

// StartPostgres starts a PostgreSQL that is gone once it is stopped, with its files in a folder, and returns its address.
func StartPostgres(ctx context.Context, folder string) (url string, stop func(), err error) {
	s, err := startPostgres(ctx, folder)
	if err != nil {
		return "", nil, err
	}
	return s.url, s.stop, nil
}
