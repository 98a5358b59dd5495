package dashboard

import (
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/ponte-pay/ponte/internal/httpkit"
)

const (
	assetsPath = "/assets/"

	assetHashChars = 12
)

//go:embed assets/*.css assets/*.js assets/*.svg
var assetFiles embed.FS

// assetKinds are not asked of the machine, which may know none.
var assetKinds = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// asset is a file that pages load.
type asset struct {
	kind   string // Content-Type
	plain  []byte
	packed []byte // by gzip; nil when that is not smaller
}

// assets are all files under their names with their hash in them, so that a browser may keep each forever.
type assets struct {
	files map[string]asset  // by the name with the hash
	names map[string]string // that name by the plain one
}

// loadAssets reads them, once for all servers of a process: a simulation starts many.
var loadAssets = sync.OnceValue(func() assets {
	a := assets{map[string]asset{}, map[string]string{}}
	entries, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		panic("dashboard: " + err.Error())
	}
	for _, e := range entries {
		content, err := fs.ReadFile(assetFiles, "assets/"+e.Name())
		if err != nil {
			panic("dashboard: " + err.Error())
		}
		sum := sha256.Sum256(content)
		ext := path.Ext(e.Name())
		name := strings.TrimSuffix(e.Name(), ext) + "." + hex.EncodeToString(sum[:])[:assetHashChars] + ext
		f := asset{kind: assetKinds[ext], plain: content}
		if f.packed, err = compress(content, gzip.BestCompression); err != nil || len(f.packed) >= len(content) {
			f.packed = nil
		}
		a.files[name], a.names[e.Name()] = f, name
	}
	return a
})

// path returns where a file is; a name that does not exist is a defect of a template.
func (a assets) path(name string) (string, error) {
	hashed, ok := a.names[name]
	if !ok {
		return "", fs.ErrNotExist
	}
	return assetsPath + hashed, nil
}

// serve sends a file. It reports false when there is none.
func (a assets) serve(w http.ResponseWriter, r *http.Request, name string) bool {
	f, ok := a.files[name]
	if !ok {
		return false
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body := f.plain
	if f.packed != nil && acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body = f.packed
	}
	_ = httpkit.Write(w, httpkit.Answer{Raw: body}) // there is nothing to encode
	return true
}
