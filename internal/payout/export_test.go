package payout

import "time"

// SetLimits shortens how long a creation may take until its money is held, and until acquirers are asked no more.
func (s *Service) SetLimits(hold, send time.Duration) { s.limits = limits{hold, send} }
