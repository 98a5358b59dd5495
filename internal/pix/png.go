package pix

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// pngForm is what the pictures of all squares with a certain side have in common. They are squares of modules, with one
// bit of grey a pixel.
//
// Their compressed stream is written without a compressor. It has four symbols only: a white module (byte 255), a black
// one (byte 0, which is also the "not filtered" before each line of pixels), "as in the line above" and the end. One
// Huffman code fits them all, and the image gets smaller than the general compressor would make it.
type pngForm struct {
	line   int       // modules of a line, the first of which is its filter
	repeat repeat    // what makes the other lines of pixels of a line of modules
	start  []byte    // everything before the first line
	head   bitWriter // that has written it
	chunk  int       // where the chunk begins that is not ended in it
}

func newPNGForm(side int) *pngForm {
	var header [13]byte
	binary.BigEndian.PutUint32(header[0:], uint32(side*qrScale))
	binary.BigEndian.PutUint32(header[4:], uint32(side*qrScale))
	header[8] = 1 // bit a pixel; the zeros behind it: grey, deflate, filter by line, not interlaced

	png := []byte("\x89PNG\r\n\x1a\n")
	png, at := beginChunk(png, "IHDR")
	png = endChunk(append(png, header[:]...), at)
	png, at = beginChunk(png, "IDAT")
	png = append(png, 0x78, 0x01) // deflate with a window of 32 KiB

	line := 1 + side
	r := repeatOf(line)
	start := make([]byte, pngRest)
	head := bitWriter{len: copy(start, png)}.writeHead(start, r)
	return &pngForm{line: line, repeat: r, start: start[:head.len], head: head, chunk: at}
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

// write writes a picture into the room, which has enough.
func (f *pngForm) write(room []byte, modules []uint32) []byte {
	const linesBefore = qrScale * (qrScale - 1) / 2 // each of the lines of pixels that are equal, added up
	copy(room, f.start)
	w := f.head
	words := lineWords(f.line)
	size := len(modules) / words * qrScale * f.line
	sum := adler32{size: size}
	for left := size; left > 0; left -= qrScale * f.line {
		var blacks, before int
		w, blacks, before = f.writeLine(w, room, modules[:words])
		sum.blacks += qrScale * blacks
		sum.distances += int64(blacks*(qrScale*left-linesBefore*f.line) - qrScale*before)
		modules = modules[words:]
	}
	w = w.write(room, endCode, endBits)
	png := binary.BigEndian.AppendUint32(w.close(room), sum.value())
	png = endChunk(png, f.chunk)
	png, at := beginChunk(png, "IEND")
	return endChunk(png, at)
}

// writeLine writes what a line of modules becomes. It returns how many of them are black, and how many modules are before
// each of those, added up.
func (f *pngForm) writeLine(w bitWriter, room []byte, line []uint32) (_ bitWriter, blacks, before int) {
	done := 0 // modules
	for _, word := range line {
		a, b, c := &symbols[byte(word)], &symbols[byte(word>>8)], &symbols[byte(word>>16)]
		n := int(a.blacks + b.blacks + c.blacks)
		w = w.write(room, a.code+a.size*(b.code+b.size*c.code), uint(min(f.line-done, wordModules)+n))
		blacks += n
		before += done*n + int(a.before+b.before+c.before+8*b.blacks+16*c.blacks)
		done += wordModules
	}
	for range f.repeat.times {
		w = w.write(room, f.repeat.code, f.repeat.bits)
	}
	return w, blacks, before
}

// wordModules is how many modules are in a word, from its lowest bit on; a black one is 1. The symbols of so many can be
// written at once.
const wordModules = 24

// lineWords returns how many words a line of so many modules takes.
func lineWords(line int) int { return (line + wordModules - 1) / wordModules }

// symbolRun is what eight modules become. A white one takes one bit, a black one two.
type symbolRun struct {
	code   uint64 // their symbols
	size   uint64 // 1 << bits of code: to multiply what follows is quicker than to shift it
	blacks uint32 // among them
	before uint32 // how many modules are before each of those, added up
}

var symbols = func() (all [256]symbolRun) {
	for eight := range all {
		s := symbolRun{size: 1}
		for i := range uint32(8) {
			if eight>>i&1 == 0 {
				s.size <<= whiteBits
				continue
			}
			s.code |= blackCode * s.size
			s.size <<= blackBits
			s.blacks++
			s.before += i
		}
		all[eight] = s
	}
	return all
}()

// repeat says how the first line of a row of modules becomes all of its lines.
type repeat struct {
	times          int    // code is written
	lengthSymbol   int    // in the alphabet of deflate
	distanceSymbol int    // in its alphabet of distances
	code           uint64 // the symbol with its length and distance, as often as can be written at once
	bits           uint
}

// repeatBitsMax is how many bits all of that takes at most: a line at a time, with five bits for the length and six for the
// distance.
const repeatBitsMax = (qrScale - 1) * (repeatBits + 5 + 6)

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
	room := make([]byte, 16)
	w = w.write(room, repeatCode, repeatBits)

	// Lengths from 3 on: the three highest bits give the symbol, the others follow it.
	n := total/r.times - 3
	extra := max(0, bits.Len(uint(n))-3)
	r.lengthSymbol = 257 + 4*extra + n>>extra
	w = w.write(room, uint64(n)&(1<<extra-1), uint(extra))

	// Distances from 1 on: the same with two bits, behind the only code of their alphabet.
	n = line - 1
	extra = bits.Len(uint(n)) - 2
	r.distanceSymbol = 2*extra + n>>extra
	w = w.write(room, 0, 1)
	w = w.write(room, uint64(n)&(1<<extra-1), uint(extra))

	r.code, r.bits = binary.LittleEndian.Uint64(room), uint(8*w.len)+w.count
	for r.times%2 == 0 && 2*r.bits <= writeBitsMax {
		r.times, r.code, r.bits = r.times/2, r.code|r.code<<r.bits, 2*r.bits
	}
	return r
}

// writeHead writes the head of the only block, which gives the length in bits of every symbol's code.
func (w bitWriter) writeHead(room []byte, r repeat) bitWriter {
	const last, dynamic = 1, 2
	w = w.write(room, last, 1)
	w = w.write(room, dynamic, 2)
	w = w.write(room, uint64(r.lengthSymbol+1-257), 5)
	w = w.write(room, uint64(r.distanceSymbol), 5)

	// The lengths are written in a code of their own: 0 takes one bit; 1, 2, 3 and "zeros" take three. This is its table,
	// in deflate's order 16 17 18 0 8 7 9 6 10 5 11 4 12 3 13 2 14 1.
	table := [...]uint64{0, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 3, 0, 3}
	w = w.write(room, uint64(len(table)-4), 4)
	for _, n := range table {
		w = w.write(room, n, 3)
	}
	const one, two, three, zeros = 0b001, 0b101, 0b011, 0b111
	w = w.write(room, two, 3) // of byte 0, black
	for _, n := range []int{138, 116} {
		w = w.write(room, zeros, 3)
		w = w.write(room, uint64(n-11), 7)
	}
	w = w.write(room, one, 3)   // of byte 255, white
	w = w.write(room, three, 3) // of the end
	w = w.write(room, 0, uint(r.lengthSymbol-257))
	w = w.write(room, three, 3)
	w = w.write(room, 0, uint(r.distanceSymbol))
	w = w.write(room, one, 3)
	return w
}

// bitWriter writes bits from the lowest on. It is used like append, as a value, so that it stays in registers.
type bitWriter struct {
	len   int    // bytes that are written
	held  uint64 // bits that are no whole byte yet
	count uint   // of held, below 8
}

// writeBitsMax is how many bits can be written at once.
const writeBitsMax = 56

// write appends the n lowest bits of code; all above them must be 0. The room must have eight bytes more.
func (w bitWriter) write(room []byte, code uint64, n uint) bitWriter {
	w.held |= code << (w.count % 8) // as it is; but the compiler need not look whether it is more than 63
	w.count += n
	binary.LittleEndian.PutUint64(room[w.len:], w.held)
	w.len += int(w.count / 8)
	w.held >>= w.count / 8 * 8 % 64
	w.count %= 8
	return w
}

// close fills the last byte up and returns all of them.
func (w bitWriter) close(room []byte) []byte {
	return room[:w.write(room, 0, (8-w.count)%8).len]
}

// adler32 is the checksum of zlib for bytes that are white or black. It has two sums: of all bytes, and of all values that
// the first one had, in which a byte counts as often as there are bytes from it to the end.
type adler32 struct {
	size      int   // bytes
	blacks    int   // among them
	distances int64 // from each of those to the end, itself included, added up
}

func (s adler32) value() uint32 {
	const modulus, white = 65521, 255
	size := int64(s.size)
	a := 1 + white*(size-int64(s.blacks))
	b := size + white*(size*(size+1)/2-s.distances)
	return uint32(b%modulus<<16 | a%modulus)
}
