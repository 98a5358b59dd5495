//go:build planted_failover

package withdrawal

// failedIsFinal gives the money of a withdrawal back that its provider calls failed, and may still send: the mistake that
// scripts/torture has to find.
const failedIsFinal = true
