//go:build !planted_failover

package withdrawal

// failedIsFinal is false. Only scripts/torture builds a binary in which it is true, to see itself find it out.
const failedIsFinal = false
