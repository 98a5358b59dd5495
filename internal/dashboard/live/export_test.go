package live

// The bounds, for tests.
const (
	PageMax          = pageMax
	WaitingMax       = waitingMax
	PersonStreamsMax = personStreamsMax
)
