package dashboard

import (
	"fmt"
	"html/template"
)

// icons are drawn in a square of 16, in lines.
var icons = map[string]string{
	"home":     `<path d="M2 7.5 8 2.5l6 5V13a1 1 0 0 1-1 1h-3v-4H6v4H3a1 1 0 0 1-1-1z"/>`,
	"in":       `<path d="M13 3 4 12M4 6v6h6"/>`,
	"out":      `<path d="M4 12 13 3M7 3h6v6"/>`,
	"list":     `<path d="M2 4h12M2 8h12M2 12h8"/>`,
	"book":     `<path d="M3 2h9a1 1 0 0 1 1 1v11H4a1 1 0 0 1-1-1zM6 5h4M6 8h4"/>`,
	"shield":   `<path d="M8 1.5 13.5 3.5V8c0 3-2.3 5.4-5.5 6.5C4.800 13.400 2.500 11 2.500 8V3.500z"/>`,
	"coin":     `<circle cx="8" cy="8" r="6"/><path d="M5 6h6M8 6v5.500"/>`,
	"hook":     `<path d="M6 2v6a3 3 0 1 0 3 3V9"/><circle cx="6" cy="2" r="1"/>`,
	"event":    `<path d="M8 1.500v4M8 10.500v4M1.500 8h4M10.500 8h4"/>`,
	"key":      `<circle cx="5" cy="11" r="3"/><path d="m7.200 8.800 6-6M11 5l2 2"/>`,
	"people":   `<circle cx="6" cy="5" r="2.500"/><path d="M1.500 14c0-2.500 2-4.500 4.500-4.500s4.500 2 4.500 4.500M11 3a2.500 2.500 0 0 1 0 4.800M12 9.800c1.500.6 2.500 2.200 2.500 4.200"/>`,
	"gear":     `<circle cx="8" cy="8" r="2.200"/><path d="M8 1.500v2M8 12.500v2M1.500 8h2M12.500 8h2M3.400 3.400l1.400 1.400M11.200 11.200l1.400 1.400M12.600 3.400l-1.400 1.400M4.800 11.200l-1.400 1.400"/>`,
	"pulse":    `<path d="M1.500 8h3l2-5 3 10 2-5h3"/>`,
	"building": `<path d="M3 14V2h10v12M1.500 14h13M6 5h1M9 5h1M6 8h1M9 8h1M7 14v-3h2v3"/>`,
	"question": `<circle cx="8" cy="8" r="6"/><path d="M6.300 6.200a1.800 1.800 0 1 1 2.500 1.700c-.6.300-.8.700-.8 1.300M8 11.400v.1"/>`,
	"menu":     `<path d="M2 4h12M2 8h12M2 12h12"/>`,
	"plus":     `<path d="M8 3v10M3 8h10"/>`,
	"copy":     `<rect x="5" y="5" width="8.500" height="8.500" rx="1"/><path d="M10.500 5V3a.5.5 0 0 0-.5-.5H3a.5.5 0 0 0-.5.5v7a.5.5 0 0 0 .5.5h2"/>`,
	"search":   `<circle cx="7" cy="7" r="4.500"/><path d="m10.500 10.500 3.500 3.500"/>`,
	"down":     `<path d="M8 2v9M4 7.500 8 11.500l4-4M2.500 14h11"/>`,
	"log":      `<path d="M3 2h10v12H3zM5.500 5h5M5.500 8h5M5.500 11h3"/>`,
}

// icon draws an icon that says nothing which the words beside it do not.
func icon(name string) (template.HTML, error) {
	drawing, ok := icons[name]
	if !ok {
		return "", fmt.Errorf("dashboard: no icon %q", name)
	}
	return template.HTML(`<svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">` + drawing + `</svg>`), nil //nolint:gosec // a constant
}
