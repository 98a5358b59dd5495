//go:build planted_failover

package payout

// failsOverFromUnknown sends a payout elsewhere that an acquirer may have sent: the mistake that scripts/torture has to
// find.
const failsOverFromUnknown = true
