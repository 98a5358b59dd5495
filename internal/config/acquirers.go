package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// acquirersSection is where the file names acquirers. No flag could.
const acquirersSection = "acquirers"

// Acquirer is an account at a bank, as the settings file describes it.
type Acquirer struct {
	Name             string `yaml:"name"`
	Driver           string `yaml:"driver"` // efi or bcb
	BaseURL          string `yaml:"base_url"`
	TokenURL         string `yaml:"token_url"`
	ClientID         string `yaml:"client_id"`
	ClientSecret     string `yaml:"client_secret"`
	ClientSecretFile string `yaml:"client_secret_file"`
	Key              string `yaml:"key"`
	Certificate      string `yaml:"certificate"`     // PEM or PKCS#12
	CertificateKey   string `yaml:"certificate_key"` // PEM
	CA               string `yaml:"ca"`              // PEM; who vouches for the acquirer's certificate; "" means whom the system trusts
	TokenBody        string `yaml:"token_body"`      // form or json; "" means form
	ReceiverName     string `yaml:"receiver_name"`   // who is paid, for codes of charges whose acquirer sends none
	ReceiverCity     string `yaml:"receiver_city"`

	CertificatePassword     string `yaml:"certificate_password"` // of a PKCS#12 file
	CertificatePasswordFile string `yaml:"certificate_password_file"`

	CallbackCA string `yaml:"callback_ca"` // PEM; who vouches for the certificate that notifications must show
	Priority   int    `yaml:"priority"`
	Weight     int    `yaml:"weight"`
}

// Acquirers returns the acquirers of the settings file; none means that the simulators stand in for them.
func (s Store) Acquirers() ([]Acquirer, error) {
	if s.Config == "" {
		return nil, nil
	}
	content, err := readBounded(s.Config)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	var file struct {
		Acquirers []Acquirer     `yaml:"acquirers"`
		Rest      map[string]any `yaml:",inline"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("--config %s: %w", s.Config, err)
	}
	for i := range file.Acquirers {
		a := &file.Acquirers[i]
		if err := errors.Join(
			secretFrom(&a.ClientSecret, a.ClientSecretFile, "client_secret"),
			secretFrom(&a.CertificatePassword, a.CertificatePasswordFile, "certificate_password"),
		); err != nil {
			return nil, fmt.Errorf("--config %s: acquirer %s: %w", s.Config, a.Name, err)
		}
	}
	return file.Acquirers, nil
}

// secretFrom fills a secret from the file that was given instead of it; "" for none.
func secretFrom(secret *string, file, name string) error {
	switch {
	case file == "":
		return nil
	case *secret != "":
		return fmt.Errorf("%s and %s_file exclude each other", name, name)
	}
	content, err := readBounded(file)
	*secret = strings.TrimRight(string(content), "\r\n")
	return err
}
