package pix

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
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
	d := qrDesks.Get().(*qrDesk) //nolint:errcheck,forcetypeassert // nothing else is in there
	defer qrDesks.Put(d)
	image := sheet.form.write(d.image[:], sheet.draw(d, text))
	return string(base64.StdEncoding.AppendEncode(append(d.url[:0], dataURLHead...), image)), nil
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
	form      *pngForm
	blank     []uint32    // its modules, the quiet zone included; the mask is in it
	pairs     [][4]module // of each byte of the data and its check: where the left ones of two bits are that are side by side
	singles   []single    // the others, in whose place pairs have nothing
	dataBytes int         // in all blocks
	blocks    int         // into which the data is cut; the last ones may be a byte longer
	checkLen  int         // bytes behind each block's data
	checks    *[256]checkBytes
}

// checkBytes are those of a block, from the left, and zeros.
type checkBytes [checkBytesMax / 8]uint64

const (
	checkBytesMax    = 32
	qrSideMax        = 17 + 4*qrVersionMax + 2*qrQuietZone
	qrWordsMax       = 512 // a power of two, so that places in it need not be checked
	qrStreamBytesMax = qrSideMax * qrSideMax / 8
	qrImageBytesMax  = qrSideMax*(blackBits*(1+qrSideMax)+repeatBitsMax)/8 + pngRest
)

// qrDesk is room to draw on. It is used again, because to clear it for each image would take a while.
type qrDesk struct {
	stream  [qrStreamBytesMax]byte // the data and its check
	modules [qrWordsMax]uint32
	image   [qrImageBytesMax]byte
	url     [len(dataURLHead) + (qrImageBytesMax+2)/3*4]byte
}

var qrDesks = sync.Pool{New: func() any { return new(qrDesk) }}

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
	side := len(plan.Pixel) + 2*qrQuietZone
	s := &qrSheet{
		version: version, form: newPNGForm(side),
		dataBytes: plan.DataBytes, blocks: plan.Blocks, checkLen: plan.CheckBytes / plan.Blocks, checks: new([256]checkBytes),
	}
	encoder := gf256.NewRSEncoder(coding.Field, s.checkLen)
	for b := range s.checks {
		var check [checkBytesMax]byte
		encoder.ECC([]byte{byte(b)}, check[:s.checkLen])
		for i := range s.checks[b] {
			s.checks[b][i] = binary.BigEndian.Uint64(check[8*i:])
		}
	}
	words := lineWords(s.form.line)
	s.blank = make([]uint32, side*words)
	for y := range side {
		s.blank[y*words] = 1 // the line's filter
	}
	places := make([]module, 8*(plan.DataBytes+plan.CheckBytes))
	for y, line := range plan.Pixel {
		for x, pixel := range line {
			at := 1 + qrQuietZone + x
			place := module{uint16((qrQuietZone+y)*words + at/wordModules), 1 << (at % wordModules)}
			if role := pixel.Role(); role == coding.Data || role == coding.Check {
				places[pixel.Offset()] = place
			}
			if pixel&coding.Black != 0 {
				s.blank[place.word] |= place.bit
			}
		}
	}
	s.pairUp(places)
	return s, nil
}

// module is a place among all modules.
type module struct {
	word uint16
	bit  uint32
}

// single is where a bit of the stream is that has no other beside it.
type single struct {
	from  uint16 // byte of the stream
	shift uint8  // bits of it that are lower
	to    module
}

// pairUp takes the places of all bits of the stream. The standard goes up and down in columns of two, from the right to the
// left one, so that nearly all come in pairs.
func (s *qrSheet) pairUp(places []module) {
	s.pairs = make([][4]module, len(places)/8)
	for i := 0; i < len(places); i += 2 {
		right, left := places[i], places[i+1]
		if right == (module{left.word, 2 * left.bit}) {
			s.pairs[i/8][i%8/2] = left
			continue
		}
		from, shift := uint16(i/8), uint8(7-i%8)
		s.singles = append(s.singles, single{from, shift, right}, single{from, shift - 1, left})
	}
}

// draw returns the modules of a code with that text, which has room.
func (s *qrSheet) draw(d *qrDesk, text string) []uint32 {
	stream := s.appendChecks(s.appendData(d.stream[:0], text))
	copy(d.modules[:], s.blank)
	pairs := s.pairs[:len(stream)]
	for i, b := range stream {
		p := &pairs[i]
		d.turn(p[0], b>>6)
		d.turn(p[1], b>>4&3)
		d.turn(p[2], b>>2&3)
		d.turn(p[3], b&3)
	}
	for _, b := range s.singles {
		d.turn(b.to, stream[b.from]>>b.shift&1)
	}
	return d.modules[:len(s.blank)]
}

// turn makes black modules white, and white ones black, where bits are set, of which the lowest is for that module.
func (d *qrDesk) turn(m module, bits byte) {
	d.modules[m.word%qrWordsMax] ^= uint32(bits) * m.bit // to multiply is quicker than to shift
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
		var r0, r1, r2, r3 uint64         // the rest; in an array it would not stay in registers
		for _, b := range data[:n] {
			check := &s.checks[b^byte(r0>>56)]
			r0 = (r0<<8 | r1>>56) ^ check[0]
			r1 = (r1<<8 | r2>>56) ^ check[1]
			r2 = (r2<<8 | r3>>56) ^ check[2]
			r3 = r3<<8 ^ check[3]
		}
		data = data[n:]
		end := len(stream) + s.checkLen
		for _, eight := range [...]uint64{r0, r1, r2, r3} {
			stream = binary.BigEndian.AppendUint64(stream, eight)
		}
		stream = stream[:end] // without the zeros
	}
	return stream
}
