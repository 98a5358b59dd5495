// Package browsertest uses the dashboard as people do: in a browser, with a mouse, with a keyboard alone, on a phone, in the
// dark, and with what a screen reader reads. Its tests need Chromium.
package browsertest
