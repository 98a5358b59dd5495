package acquirer

import "time"

// Limit shortens the times of a router.
func (r *Router) Limit(try, creation time.Duration) { r.limits = limits{try, creation} }
