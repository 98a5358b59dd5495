package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"go.yaml.in/yaml/v3"
)

// webhooksSection is where the file has the rules of deliveries. They are one set for all nodes, so no flags.
const webhooksSection = "webhooks"

// Webhooks are the rules of deliveries, as the settings file gives them. Zero values mean the defaults.
type Webhooks struct {
	Timeout       time.Duration   `yaml:"timeout"`        // that a receiver has to answer
	RetryWaits    []time.Duration `yaml:"retry_waits"`    // after each failure
	Keep          time.Duration   `yaml:"keep"`           // how long events are kept
	AllowNetworks []netip.Prefix  `yaml:"allow_networks"` // that may be sent to although they are not public
}

// Bounds of the settings.
const (
	webhookTimeoutMin = 10 * time.Millisecond
	webhookTimeoutMax = time.Minute
	retriesMax        = 20
	retryWaitMax      = 7 * 24 * time.Hour
	keepMin           = 24 * time.Hour
)

// Webhooks returns the rules of deliveries.
func (s Store) Webhooks() (Webhooks, error) {
	if s.Config == "" {
		return Webhooks{}, nil
	}
	content, err := readBounded(s.Config)
	if err != nil {
		return Webhooks{}, fmt.Errorf("--config: %w", err)
	}
	var file struct {
		Webhooks Webhooks       `yaml:"webhooks"`
		Rest     map[string]any `yaml:",inline"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return Webhooks{}, fmt.Errorf("--config %s: %w", s.Config, err)
	}
	if err := file.Webhooks.validate(); err != nil {
		return Webhooks{}, fmt.Errorf("--config %s: webhooks: %w", s.Config, err)
	}
	return file.Webhooks, nil
}

func (w Webhooks) validate() error {
	if w.Timeout != 0 && (w.Timeout < webhookTimeoutMin || w.Timeout > webhookTimeoutMax) {
		return fmt.Errorf("timeout %v: want %v to %v", w.Timeout, webhookTimeoutMin, webhookTimeoutMax)
	}
	if len(w.RetryWaits) > retriesMax {
		return fmt.Errorf("retry_waits: want at most %d", retriesMax)
	}
	for _, wait := range w.RetryWaits {
		if wait < 0 || wait > retryWaitMax {
			return fmt.Errorf("retry_waits: %v: want 0 to %v", wait, retryWaitMax)
		}
	}
	if w.Keep != 0 && w.Keep < keepMin {
		return fmt.Errorf("keep %v: want at least %v", w.Keep, keepMin)
	}
	return nil
}
