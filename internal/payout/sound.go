//go:build !planted_failover

package payout

// failsOverFromUnknown is false. Only scripts/torture builds a binary in which it is true, to see itself find it out.
const failsOverFromUnknown = false
