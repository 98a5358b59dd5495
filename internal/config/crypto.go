package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Sections of the file that no flag could be.
const (
	cryptoSection = "crypto" // the crypto provider
	ratesSection  = "rates"  // sources of the dollar's price in reais
)

// Crypto is an account at a crypto provider, as the settings file describes it.
type Crypto struct {
	Name           string `yaml:"name"`
	Driver         string `yaml:"driver"` // nowpayments
	BaseURL        string `yaml:"base_url"`
	APIKey         string `yaml:"api_key"`
	APIKeyFile     string `yaml:"api_key_file"`
	Email          string `yaml:"email"`
	Password       string `yaml:"password"`
	PasswordFile   string `yaml:"password_file"`
	TOTPSecret     string `yaml:"totp_secret"`
	TOTPSecretFile string `yaml:"totp_secret_file"`
	IPNSecret      string `yaml:"ipn_secret"`
	IPNSecretFile  string `yaml:"ipn_secret_file"`
	Settlement     string `yaml:"settlement"` // code of the coin that deposits are settled in
}

// RateSource is a service that tells what a dollar costs in reais.
type RateSource struct {
	Name       string `yaml:"name"`
	Driver     string `yaml:"driver"` // awesomeapi or coingecko
	BaseURL    string `yaml:"base_url"`
	APIKey     string `yaml:"api_key"`
	APIKeyFile string `yaml:"api_key_file"`
}

// Crypto returns the crypto provider of the settings file, nil for none, and its sources of rates.
func (s Store) Crypto() (*Crypto, []RateSource, error) {
	if s.Config == "" {
		return nil, nil, nil
	}
	content, err := readBounded(s.Config)
	if err != nil {
		return nil, nil, fmt.Errorf("--config: %w", err)
	}
	var file struct {
		Crypto *Crypto        `yaml:"crypto"`
		Rates  []RateSource   `yaml:"rates"`
		Rest   map[string]any `yaml:",inline"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("--config %s: %w", s.Config, err)
	}
	secrets := [][2]*string{}
	if c := file.Crypto; c != nil {
		secrets = append(secrets, [2]*string{&c.APIKeyFile, &c.APIKey}, [2]*string{&c.PasswordFile, &c.Password},
			[2]*string{&c.TOTPSecretFile, &c.TOTPSecret}, [2]*string{&c.IPNSecretFile, &c.IPNSecret})
	}
	for i := range file.Rates {
		secrets = append(secrets, [2]*string{&file.Rates[i].APIKeyFile, &file.Rates[i].APIKey})
	}
	for _, pair := range secrets {
		if *pair[0] == "" {
			continue
		}
		secret, err := readBounded(*pair[0])
		if err != nil {
			return nil, nil, fmt.Errorf("--config %s: %w", s.Config, err)
		}
		*pair[1] = strings.TrimRight(string(secret), "\r\n")
	}
	return file.Crypto, file.Rates, nil
}
