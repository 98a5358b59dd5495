package pix

import (
	"encoding/base64"
	"fmt"
	"sync"

	"rsc.io/qr/coding"
)

const (
	qrLevel      = coding.M // 15 % of a code can be unreadable
	qrVersionMax = 18       // has room for brCodeMax bytes
	qrQuietZone  = 4        // modules of white on each side, as the standard wants
	qrScale      = 8        // pixels of one module's side: at one bit a pixel, a module is one byte
)

const dataURLHead = "data:image/png;base64,"

// QRImage returns a QR code of the text as a data URL of a PNG. It fails when the text is longer than a BR Code can be.
// Its mask is always the first one: readers are told which it is, and to look for the best would cost eight times as
// much.
func QRImage(text string) (string, error) {
	if len(text) > brCodeMax {
		return "", fmt.Errorf("pix: QR code: %d characters, at most %d", len(text), brCodeMax)
	}
	version := qrVersion(text)
	plan, err := qrPlans[version]()
	if err != nil {
		return "", fmt.Errorf("pix: QR code: %w", err)
	}
	code, err := plan.Encode(coding.String(text))
	if err != nil {
		return "", fmt.Errorf("pix: QR code: %w", err)
	}
	image := pngOf(code)
	url := make([]byte, 0, len(dataURLHead)+base64.StdEncoding.EncodedLen(len(image)))
	url = append(url, dataURLHead...)
	return string(base64.StdEncoding.AppendEncode(url, image)), nil
}

// qrVersion returns the smallest version with room for the text.
func qrVersion(text string) coding.Version {
	version := coding.Version(coding.MinVersion)
	for version < qrVersionMax && coding.String(text).Bits(version) > version.DataBytes(qrLevel)*8 {
		version++
	}
	return version
}

// qrPlans hold which bit of the data is which module. To make one takes longer than all the rest of an image, and only
// a few of them are ever needed.
var qrPlans = func() (plans [qrVersionMax + 1]func() (*coding.Plan, error)) {
	for v := range plans {
		plans[v] = sync.OnceValues(func() (*coding.Plan, error) { return coding.NewPlan(coding.Version(v), qrLevel, 0) })
	}
	return plans
}()
