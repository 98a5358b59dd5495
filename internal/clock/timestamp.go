package clock

import "time"

// Timestamp writes a moment as callers see it everywhere: ISO 8601 in UTC, to the microsecond.
func Timestamp(t time.Time) string {
	t = t.UTC()
	var room [len("2006-01-02T15:04:05.000000Z")]byte
	b := t.AppendFormat(room[:0], time.RFC3339) // which costs a third of any other layout
	b[len(b)-1] = '.'
	for micros, digit := t.Nanosecond()/1000, 100_000; digit > 0; digit /= 10 {
		b = append(b, '0'+byte(micros/digit%10))
	}
	return string(append(b, 'Z'))
}
