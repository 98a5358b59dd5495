package api

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/ponte-pay/ponte/internal/httpkit"
)

// OpenAPI is the machine-readable description of the API.
//
//go:embed openapi.yaml
var OpenAPI []byte

var openAPIAsJSON = sync.OnceValues(func() ([]byte, error) {
	var document any
	if err := yaml.Unmarshal(OpenAPI, &document); err != nil {
		return nil, fmt.Errorf("api: openapi.yaml: %w", err)
	}
	return json.Marshal(document)
})

func (a *API) openAPIYAML(*call) (httpkit.Answer, error) {
	return httpkit.Answer{Raw: OpenAPI, Header: http.Header{"Content-Type": {"application/yaml; charset=utf-8"}}}, nil
}

func (a *API) openAPIJSON(*call) (httpkit.Answer, error) {
	document, err := openAPIAsJSON()
	return httpkit.Answer{Raw: document, Header: http.Header{"Content-Type": {"application/json; charset=utf-8"}}}, err
}
