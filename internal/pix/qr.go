package pix

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync"

	"rsc.io/qr/coding"
	"rsc.io/qr/gf256"
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
	var modules [qrModuleBytesMax]byte
	png := qrImages.Get().(*[qrImageBytesMax]byte) //nolint:errcheck,forcetypeassert // nothing else is in there
	defer qrImages.Put(png)
	image := appendPNG(png[:0], sheet.side, sheet.draw(modules[:0], text))
	var url [len(dataURLHead) + (qrImageBytesMax+2)/3*4]byte
	return string(base64.StdEncoding.AppendEncode(append(url[:0], dataURLHead...), image)), nil
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
	version   coding.Version
	side      int      // modules, the quiet zone included
	blank     []byte   // a bit a module, each line of them from a new byte on; the mask is in it
	places    []module // of each bit of the data and its check
	dataBytes int      // in all blocks
	blocks    int      // into which the data is cut; the last ones may be a byte longer
	checkLen  int      // bytes behind each block's data
	checks    *[256]checkBytes
}

// checkBytes are those of a block, from the left, and zeros.
type checkBytes [checkBytesMax / 8]uint64

const (
	checkBytesMax    = 32
	qrSideMax        = 17 + 4*qrVersionMax + 2*qrQuietZone
	qrModuleBytesMax = qrSideMax * ((qrSideMax + 7) / 8)
	qrImageBytesMax  = qrSideMax*qrSideMax/4 + pngRest
)

// qrImages is room for images, which the sum at their end would have made anew on the heap for each.
var qrImages = sync.Pool{New: func() any { return new([qrImageBytesMax]byte) }}

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
	s := &qrSheet{
		version: version, side: len(plan.Pixel) + 2*qrQuietZone,
		dataBytes: plan.DataBytes, blocks: plan.Blocks, checkLen: plan.CheckBytes / plan.Blocks, checks: new([256]checkBytes),
	}
	s.blank = make([]byte, s.side*lineBytes(s.side))
	s.places = make([]module, 8*(plan.DataBytes+plan.CheckBytes))
	encoder := gf256.NewRSEncoder(coding.Field, s.checkLen)
	for b := range s.checks {
		var check [checkBytesMax]byte
		encoder.ECC([]byte{byte(b)}, check[:s.checkLen])
		for i := range s.checks[b] {
			s.checks[b][i] = binary.BigEndian.Uint64(check[8*i:])
		}
	}
	for y, line := range plan.Pixel {
		for x, pixel := range line {
			bit := 8*lineBytes(s.side)*(y+qrQuietZone) + x + qrQuietZone
			place := module{uint16(bit / 8), 0x80 >> (bit % 8)}
			if role := pixel.Role(); role == coding.Data || role == coding.Check {
				s.places[pixel.Offset()] = place
			}
			if pixel&coding.Black != 0 {
				place.turn(s.blank)
			}
		}
	}
	return s, nil
}

// lineBytes returns how many bytes a line of so many modules takes.
func lineBytes(side int) int { return (side + 7) / 8 }

// draw appends the modules of a code with that text, which has room.
func (s *qrSheet) draw(modules []byte, text string) []byte {
	var room [qrModuleBytesMax]byte
	stream := s.appendChecks(s.appendData(room[:0], text))
	modules = append(modules, s.blank...)
	for i, b := range stream {
		places := (*[8]module)(s.places[8*i:])
		for ; b != 0; b &= b - 1 { // from the lowest bit that is set to the highest
			places[7-bits.TrailingZeros8(b)].turn(modules)
		}
	}
	return modules
}

// appendData appends the text as the standard packs it: four bits that say bytes, their number, they, four zeros, and a
// filling. So each byte of the text is spread over two.
func (s *qrSheet) appendData(stream []byte, text string) []byte {
	const isBytes = 4
	held := byte(isBytes)
	put := func(b byte) {
		stream = append(stream, held<<4|b>>4)
		held = b & 0xf
	}
	if coding.String("").Bits(s.version) > 4+8 {
		put(byte(len(text) >> 8))
	}
	put(byte(len(text)))
	for _, b := range []byte(text) {
		put(b)
	}
	put(0)
	for filling := byte(0xec); len(stream) < s.dataBytes; filling ^= 0xec ^ 0x11 {
		stream = append(stream, filling)
	}
	return stream
}

// appendChecks appends to the data the check bytes of its blocks: what is left of a block's polynomial when it is divided
// by the standard's, a byte at a time.
func (s *qrSheet) appendChecks(stream []byte) []byte {
	data := stream
	for i := range s.blocks {
		n := (s.dataBytes + i) / s.blocks // the first ones are the shorter ones
		var rest checkBytes
		for _, b := range data[:n] {
			check := &s.checks[b^byte(rest[0]>>56)]
			for k := range len(rest) - 1 {
				rest[k] = (rest[k]<<8 | rest[k+1]>>56) ^ check[k]
			}
			rest[len(rest)-1] = rest[len(rest)-1]<<8 ^ check[len(rest)-1]
		}
		data = data[n:]
		var bytes [checkBytesMax]byte
		for k, eight := range rest {
			binary.BigEndian.PutUint64(bytes[8*k:], eight)
		}
		stream = append(stream, bytes[:s.checkLen]...)
	}
	return stream
}

// module is a place in the bytes of all modules.
type module struct {
	at  uint16
	bit uint8
}

// turn makes a black module white, or a white one black.
func (m module) turn(modules []byte) { modules[m.at] ^= m.bit }
