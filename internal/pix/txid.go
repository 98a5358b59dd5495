package pix

const (
	txIDMax       = 35
	chargeTxIDMin = 26
)

// IsTxID reports whether s can be the txid of a payment, and so of a static code too. The same rule holds for the ids
// that we choose for returns and payouts.
func IsTxID(s string) bool { return len(s) <= txIDMax && isAlphanumeric(s) }

// IsChargeTxID reports whether s can be the txid of a charge, which must be longer than a static code's.
func IsChargeTxID(s string) bool { return len(s) >= chargeTxIDMin && IsTxID(s) }

// isStaticTxID reports whether s has room in a static BR Code.
func isStaticTxID(s string) bool { return len(s) <= staticTxIDMax && isAlphanumeric(s) }
