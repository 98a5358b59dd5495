package pix

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// appendPNG appends a picture of a square of modules, of which each is a bit, with one bit of grey a pixel.
//
// Its compressed stream is written without a compressor. It has four symbols only: a white module (byte 255), a black
// one (byte 0, which is also the "not filtered" before each line of pixels), "as in the line above" and the end. One
// Huffman code fits them all, and the image gets smaller than the general compressor would make it.
func appendPNG(png []byte, side int, modules []byte) []byte {
	var header [13]byte
	binary.BigEndian.PutUint32(header[0:], uint32(side*qrScale))
	binary.BigEndian.PutUint32(header[4:], uint32(side*qrScale))
	header[8] = 1 // bit a pixel; the zeros behind it: grey, deflate, filter by line, not interlaced

	png = append(png, "\x89PNG\r\n\x1a\n"...)
	png, at := beginChunk(png, "IHDR")
	png = endChunk(append(png, header[:]...), at)
	png, at = beginChunk(png, "IDAT")
	png = endChunk(appendPixels(png, side, modules), at)
	png, at = beginChunk(png, "IEND")
	return endChunk(png, at)
}

// pngRest is the room for everything but the modules.
const pngRest = 512

// beginChunk begins a chunk of the PNG, whose content follows, and returns where it is.
func beginChunk(png []byte, name string) (longer []byte, at int) {
	return append(append(png, 0, 0, 0, 0), name...), len(png) // the length is not known yet
}

// endChunk ends the chunk that begins there.
func endChunk(png []byte, at int) []byte {
	const lengthLen, nameLen = 4, 4
	binary.BigEndian.PutUint32(png[at:], uint32(len(png)-at-lengthLen-nameLen))
	return binary.BigEndian.AppendUint32(png, crc32.ChecksumIEEE(png[at+lengthLen:]))
}

// The symbols of the stream. A Huffman code goes out from its first bit, so it is written here from right to left.
const (
	whiteBits              = 1 // a zero
	blackCode, blackBits   = 0b01, 2
	endCode, endBits       = 0b011, 3
	repeatCode, repeatBits = 0b111, 3
)

// appendPixels appends all lines of pixels as a stream of zlib.
func appendPixels(b []byte, side int, modules []byte) []byte {
	line := 1 + side // bytes: the filter and the modules
	r := repeatOf(line)
	w := bitWriter{bytes: append(b, 0x78, 0x01)} // deflate with a window of 32 KiB
	w.writeHead(r)
	sum := adler32{a: 1}
	for rest := modules; len(rest) > 0; rest = rest[lineBytes(side):] { // not a function that yields them: all would go to the heap
		row := rest[:lineBytes(side)]
		// Of the modules' bytes the sum only needs how many are 255, and how far they are from the end of the line.
		whites, distances := 0, 0
		w.write(blackCode, blackBits)
		for i, eight := range row {
			s := &symbols[eight]
			left := side - 8*i // modules from here to the end
			if left < 8 {
				s = symbolsOf(eight, left)
			}
			w.write(uint64(s.code), int(s.bits))
			whites += int(s.whites)
			distances += int(s.whites)*left - int(s.before)
		}
		for range r.times {
			w.write(r.code, r.bits)
		}
		sum.add(line, whites, distances)
	}
	w.write(endCode, endBits)
	return binary.BigEndian.AppendUint32(w.close(), sum.b<<16|sum.a)
}

// symbolRun is what some modules of a line become.
type symbolRun struct {
	code   uint16 // their symbols
	bits   uint8  // of code
	whites uint8  // among them
	before uint8  // how many modules are before each of those, added up
}

// symbols are the runs of eight modules.
var symbols = func() (all [256]symbolRun) {
	for eight := range all {
		all[eight] = *symbolsOf(byte(eight), 8)
	}
	return all
}()

// symbolsOf returns what the n highest bits become.
func symbolsOf(modules byte, n int) *symbolRun {
	var s symbolRun
	for i := range n {
		if modules&(0x80>>i) != 0 {
			s.code |= blackCode << s.bits
			s.bits += blackBits
		} else {
			s.bits += whiteBits
			s.whites++
			s.before += uint8(i)
		}
	}
	return &s
}

// repeat says how the first line of a row of modules becomes all of its lines.
type repeat struct {
	times          int    // the symbol is written
	lengthSymbol   int    // in the alphabet of deflate
	distanceSymbol int    // in its alphabet of distances
	code           uint64 // the symbol with its length and distance
	bits           int
}

// lengthMax is how many bytes a symbol can repeat. There is one more symbol, for 258, which is out of line.
const lengthMax = 257

// repeatOf returns how to repeat a line of that many bytes in as few equal steps as there can be.
func repeatOf(line int) repeat {
	total := (qrScale - 1) * line
	r := repeat{times: (total + lengthMax - 1) / lengthMax}
	for total%r.times != 0 {
		r.times++ // at worst a line at a time
	}
	var w bitWriter
	w.write(repeatCode, repeatBits)

	// Lengths from 3 on: the three highest bits give the symbol, the others follow it.
	n := total/r.times - 3
	extra := max(0, bits.Len(uint(n))-3)
	r.lengthSymbol = 257 + 4*extra + n>>extra
	w.write(uint64(n)&(1<<extra-1), extra)

	// Distances from 1 on: the same with two bits, behind the only code of their alphabet.
	n = line - 1
	extra = bits.Len(uint(n)) - 2
	r.distanceSymbol = 2*extra + n>>extra
	w.write(0, 1)
	w.write(uint64(n)&(1<<extra-1), extra)

	r.code, r.bits = w.held, w.count
	return r
}

// writeHead writes the head of the only block, which gives the length in bits of every symbol's code.
func (w *bitWriter) writeHead(r repeat) {
	const last, dynamic = 1, 2
	w.write(last, 1)
	w.write(dynamic, 2)
	w.write(uint64(r.lengthSymbol+1-257), 5)
	w.write(uint64(r.distanceSymbol), 5)

	// The lengths are written in a code of their own: 0 takes one bit; 1, 2, 3 and "zeros" take three. This is its table,
	// in deflate's order 16 17 18 0 8 7 9 6 10 5 11 4 12 3 13 2 14 1.
	table := [...]uint64{0, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 3, 0, 3}
	w.write(uint64(len(table)-4), 4)
	for _, n := range table {
		w.write(n, 3)
	}
	const one, two, three, zeros = 0b001, 0b101, 0b011, 0b111
	w.write(two, 3) // of byte 0, black
	for _, n := range []int{138, 116} {
		w.write(zeros, 3)
		w.write(uint64(n-11), 7)
	}
	w.write(one, 3)   // of byte 255, white
	w.write(three, 3) // of the end
	w.write(0, r.lengthSymbol-257)
	w.write(three, 3)
	w.write(0, r.distanceSymbol)
	w.write(one, 3)
}

// bitWriter writes bits from the lowest on.
type bitWriter struct {
	bytes []byte
	held  uint64 // bits that are not in bytes yet
	count int    // of held, below 32 between calls
}

// write appends the n lowest bits of code, at most 32; all above them must be 0.
func (w *bitWriter) write(code uint64, n int) {
	w.held |= code << w.count
	w.count += n
	if w.count >= 32 {
		w.bytes = binary.LittleEndian.AppendUint32(w.bytes, uint32(w.held))
		w.held >>= 32
		w.count -= 32
	}
}

// close fills the last byte up and returns all of them.
func (w *bitWriter) close() []byte {
	for ; w.count > 0; w.count -= 8 {
		w.bytes = append(w.bytes, byte(w.held))
		w.held >>= 8
	}
	return w.bytes
}

// adler32 is the checksum of zlib: a is the sum of all bytes, b the sum of all values that a had.
type adler32 struct{ a, b uint32 }

// add counts the qrScale equal lines of one row of modules. Each line has that many bytes of 255 whose distances to its
// end, itself included, add up to distances; its other bytes are 0.
func (s *adler32) add(line, whites, distances int) {
	const modulus, white = 65521, 255
	const allBefore = qrScale * (qrScale - 1) / 2 // lines before each of the lines, added up
	length, more, a := uint64(line), uint64(whites)*white, uint64(s.a)
	s.b = uint32((uint64(s.b) + qrScale*(length*a+uint64(distances)*white) + allBefore*length*more) % modulus)
	s.a = uint32((a + qrScale*more) % modulus)
}
