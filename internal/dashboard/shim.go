package dashboard

// option is a choice of a select.
type option struct{ Value, Text string }
