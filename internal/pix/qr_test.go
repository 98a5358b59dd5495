package pix

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rsc.io/qr"
	"rsc.io/qr/coding"
)

// sizedTexts are one for each size of image.
func sizedTexts() []string {
	var all []string
	for v := coding.Version(coding.MinVersion); v <= qrVersionMax; v++ {
		room := v.DataBytes(qrLevel) - 3 // what says the length takes two or three bytes
		all = append(all, strings.Repeat("Pix 0123456789 ", 40)[:min(room, brCodeMax)])
	}
	return all
}

// decode returns the file inside of a data URL.
func decode(t *testing.T, url string) []byte {
	t.Helper()
	text, ok := strings.CutPrefix(url, "data:image/png;base64,")
	file, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil {
		t.Fatalf("%.40q is no data URL of a PNG: %v", url, err)
	}
	return file
}

// TestQRImageDraws compares every pixel with the modules of another encoder.
func TestQRImageDraws(t *testing.T) {
	t.Parallel()
	sizes := map[int]bool{}
	for _, text := range sizedTexts() {
		url, err := QRImage(text)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := png.Decode(bytes.NewReader(decode(t, url)))
		if err != nil {
			t.Fatalf("%d characters: %v", len(text), err)
		}
		got, ok := decoded.(*image.Gray)
		if !ok {
			t.Fatalf("%d characters: %T, want shades of grey", len(text), decoded)
		}
		want, err := qr.Encode(text, qr.M)
		if err != nil {
			t.Fatal(err)
		}
		side := (want.Size + 2*qrQuietZone) * qrScale
		if size := got.Bounds(); size.Dx() != side || size.Dy() != side {
			t.Fatalf("%d characters: image of %v, want a side of %d", len(text), size, side)
		}
		for y := range side {
			for x := range side {
				shade := uint8(255)
				if want.Black(x/qrScale-qrQuietZone, y/qrScale-qrQuietZone) {
					shade = 0
				}
				if got := got.GrayAt(x, y).Y; got != shade {
					t.Fatalf("%d characters: pixel %d, %d is %d, want %d", len(text), x, y, got, shade)
				}
			}
		}
		sizes[want.Size] = true
	}
	if len(sizes) != qrVersionMax {
		t.Errorf("drew %d sizes, want all %d", len(sizes), qrVersionMax)
	}
}

// TestQRImageScans reads the images with a program that others wrote.
func TestQRImageScans(t *testing.T) {
	t.Parallel()
	zbarimg, err := exec.LookPath("zbarimg")
	if err != nil {
		t.Fatal("Please install zbarimg (Debian: zbar-tools) and run this again.")
	}
	texts := sizedTexts()
	for _, v := range vectors {
		texts = append(texts, v.text)
	}
	args := []string{"--nodbus", "--quiet", "--raw", "--set", "*.enable=0", "--set", "qrcode.enable=1"}
	for i, text := range texts {
		url, err := QRImage(text)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), fmt.Sprintf("%d.png", i))
		if err := os.WriteFile(name, decode(t, url), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, name)
	}
	out, err := exec.CommandContext(t.Context(), zbarimg, args...).Output()
	if want := strings.Join(texts, "\n") + "\n"; string(out) != want || err != nil {
		t.Errorf("%v, scanned\n%s, want\n%s", err, out, want)
	}
}

func TestQRImageRefuses(t *testing.T) {
	t.Parallel()
	if _, err := QRImage(strings.Repeat("a", brCodeMax)); err != nil {
		t.Errorf("%d characters: %v", brCodeMax, err)
	}
	if url, err := QRImage(strings.Repeat("a", brCodeMax+1)); url != "" || err == nil {
		t.Errorf("%d characters: %v", brCodeMax+1, err)
	}
}

func TestQRImageInParallel(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	urls := make([]string, 8)
	for i := range urls {
		all.Go(func() { urls[i], _ = QRImage(dynamicText) })
	}
	all.Wait()
	for _, url := range urls {
		if url != urls[0] || url == "" {
			t.Error("the same text gives two images")
		}
	}
}

// BenchmarkQR measures an image against the library's own, taking turns, and fails when it costs more than a fifth.
func BenchmarkQR(b *testing.B) {
	const ratioMax = 0.2
	var url string
	var file []byte
	var ours, stock time.Duration
	for b.Loop() {
		start := time.Now()
		var err error
		if url, err = QRImage(dynamicText); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		code, err := qr.Encode(dynamicText, qr.M)
		if err != nil {
			b.Fatal(err)
		}
		file = code.PNG()
		ours, stock = ours+middle.Sub(start), stock+time.Since(middle)
	}
	ratio := ours.Seconds() / stock.Seconds()
	b.ReportMetric(float64(ours.Nanoseconds())/float64(b.N), "ours-ns/op")
	b.ReportMetric(float64(stock.Nanoseconds())/float64(b.N), "stock-ns/op")
	b.ReportMetric(ratio, "ours/stock")
	b.ReportMetric(float64(len(url)), "ours-bytes")
	b.ReportMetric(float64(base64.StdEncoding.EncodedLen(len(file))), "stock-bytes")
	if ratio > ratioMax && b.N > 1 {
		b.Errorf("an image costs %.2f of the library's own, at most %.2f", ratio, ratioMax)
	}
}
