package withdrawal

import "context"

// Verify confirms a withdrawal with the second factor, as its sweep does.
func (s *Service) Verify(ctx context.Context, w *Withdrawal) error { return s.verify(ctx, w) }
