package pix

import (
	"encoding/base64"
	"fmt"
	"math/bits"
	"slices"
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
	sheet, err := qrSheets[version]()
	if err != nil {
		return "", fmt.Errorf("pix: QR code: %w", err)
	}
	image := pngOf(sheet.side, sheet.draw(text))
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

// qrSheet is a code that nothing is written on yet. To make one takes longer than all the rest of an image, and only a few
// of them are ever needed.
type qrSheet struct {
	version coding.Version
	side    int     // modules, the quiet zone included
	blank   []byte  // a bit a module, each line of them from a new byte on; the mask is in it
	places  []int32 // of each bit of the data and its check, in bits of blank
}

var qrSheets = func() (sheets [qrVersionMax + 1]func() (*qrSheet, error)) {
	for v := range sheets {
		sheets[v] = sync.OnceValues(func() (*qrSheet, error) { return newQRSheet(coding.Version(v)) })
	}
	return sheets
}()

func newQRSheet(version coding.Version) (*qrSheet, error) {
	plan, err := coding.NewPlan(version, qrLevel, 0)
	if err != nil {
		return nil, err
	}
	s := &qrSheet{version: version, side: len(plan.Pixel) + 2*qrQuietZone}
	s.blank = make([]byte, s.side*lineBytes(s.side))
	s.places = make([]int32, 8*(plan.DataBytes+plan.CheckBytes))
	for y, line := range plan.Pixel {
		for x, pixel := range line {
			place := 8*lineBytes(s.side)*(y+qrQuietZone) + x + qrQuietZone
			if role := pixel.Role(); role == coding.Data || role == coding.Check {
				s.places[pixel.Offset()] = int32(place)
			}
			if pixel&coding.Black != 0 {
				turn(s.blank, place)
			}
		}
	}
	return s, nil
}

// lineBytes returns how many bytes a line of so many modules takes.
func lineBytes(side int) int { return (side + 7) / 8 }

// draw returns the modules of a code with that text, which has room.
func (s *qrSheet) draw(text string) []byte {
	var stream coding.Bits
	coding.String(text).Encode(&stream, s.version)
	stream.AddCheckBytes(s.version, qrLevel)
	modules := slices.Clone(s.blank)
	for i, b := range stream.Bytes() {
		for ; b != 0; b &= b - 1 { // from the lowest bit that is set to the highest
			turn(modules, int(s.places[8*i+7-bits.TrailingZeros8(b)]))
		}
	}
	return modules
}

// turn makes a black module white, or a white one black.
func turn(modules []byte, place int) { modules[place/8] ^= 0x80 >> (place % 8) }
