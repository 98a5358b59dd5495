package address_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/chain/address"
)

// valid are addresses that others made.
var valid = map[string][]string{
	"btc": {
		"1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2", "3EktnHQD7RiAE6uzMj2ZifT9YgRrkSgzQX", "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq",
		"bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv3", "bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr",
	},
	"ltc":  {"LaMT348PWRnrqeeWArpwQPbuanpXDZGEUz", "MQMcJhpWHYVeQArcZR3sBgyPZxxRtnH441", "ltc1q7nlrhuxks5rvc7aumcpzttm3xll3f5zqlp0pyv"},
	"trx":  {"TEmGwPeRTPiLFLVfBxXkSP91yc5GMNQhfS"},
	"eth":  {"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0x1EBAeF7Bee7B3a7B2EEfC72e86593Bf15ED37522"},
	"bsc":  {"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"},
	"xrp":  {"rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh"},
	"ton":  {"EQCD39VS5jcptHL8vMjEXrzGaRcCVYto7HUn4bpAOg8xqB2N", "UQCD39VS5jcptHL8vMjEXrzGaRcCVYto7HUn4bpAOg8xqEBI"},
	"ada":  {"addr1v9rxerjarydd069l7rjl4m6a4jvd75h7clzt0ndf3dm0h8c6wqjeh"},
	"bch":  {"bitcoincash:qpm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6a"},
	"doge": {"DH5yaieqoZN36fDVciNyRueRGvGLR3mr7L"},
	"sol":  {"7EcDhSYGxXyscszYEp35KHN8vvw3svAuLKTzXwCFLtV"},
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for network, addresses := range valid {
		for _, a := range addresses {
			if got, err := address.Check(network, " "+a+" "); got != a || err != nil {
				t.Errorf("%s %s: %q, %v", network, a, got, err)
			}
		}
	}
	upper := strings.ToUpper(valid["btc"][2])
	for _, test := range []struct {
		network, text, want string
		err                 error
	}{
		{"btc", upper, valid["btc"][2], nil},
		{"eth", strings.ToLower(valid["eth"][0]), valid["eth"][0], nil},
		{"eth", "0x" + strings.ToUpper(valid["eth"][0][2:]), valid["eth"][0], nil},
		{"bch", "qpm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6a", valid["bch"][0], nil},
		{"bch", "QPM2QSZNHKS23Z7629MMS6S4CWEF74VCWVY22GDX6A", valid["bch"][0], nil},

		{"btc", "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN3", "", address.ErrChecksum},
		{"btc", "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdr", "", address.ErrChecksum},
		{"btc", "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdQ", "", address.ErrSyntax},                         // mixed case
		{"btc", "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx", "", address.ErrSyntax},                         // the test network's
		{"btc", "LaMT348PWRnrqeeWArpwQPbuanpXDZGEUz", "", address.ErrSyntax},                                 // Litecoin's
		{"btc", "bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs", "", address.ErrSyntax},                               // witness version 2
		{"btc", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kemeawh", "", address.ErrSyntax},                         // version 0 with the wrong constant
		{"btc", "bc1p38j9r5y49hruaue7wxjce0updqjuyyx0kh56v8s25huc6995vvpql3jow4", "", address.ErrSyntax},     // a character that is none
		{"btc", "bc1gmk9yu", "", address.ErrSyntax},                                                          // empty
		{"btc", "bitcoin:1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2", "", address.ErrSyntax},                         // a URI
		{"btc", "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2\n", "", address.ErrSyntax},                               // a line's end
		{"btc", "1BvBMSEYstWetqTFn5Au4m4GFg7xJaN VN2", "", address.ErrSyntax},                                // a space inside
		{"btc", "1BitcoinEaterAddressDontSendf59kuE", "", address.ErrForbidden},                              // a grave
		{"btc", "1111111111111111111114oLvT2", "", address.ErrForbidden},                                     // zeros
		{"ltc", "3EktnHQD7RiAE6uzMj2ZifT9YgRrkSgzQX", "", address.ErrSyntax},                                 // may be Bitcoin's
		{"ltc", "ltcmweb1qq0yfgu5jsc8sz0zrx0yf3p6w7yhlt4", "", address.ErrSyntax},                            // MWEB
		{"trx", "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6T", "", address.ErrChecksum},                               // mistyped
		{"trx", "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t", "", address.ErrForbidden},                              // the token's contract
		{"trx", "T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb", "", address.ErrForbidden},                              // zeros
		{"trx", "TLsV52sRDL79HXGGm9yzwKibb6BeruhUzy", "", address.ErrForbidden},                              // a grave
		{"trx", "41a614f803b6fd780986a42c78ec9c7f77e6ded13c", "", address.ErrSyntax},                         // hexadecimal
		{"trx", strings.Repeat("T", 34), "", address.ErrChecksum},                                            //
		{"eth", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD", "", address.ErrChecksum},                       // wrong case
		{"eth", "0g033BbF609Ed876576735a02fa181842319Dd8b8F", "", address.ErrSyntax},                         //
		{"eth", "0X5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "", address.ErrSyntax},                         //
		{"eth", "0x0000000000000000000000000000000000000000", "", address.ErrForbidden},                      //
		{"eth", "0x000000000000000000000000000000000000dEaD", "", address.ErrForbidden},                      //
		{"eth", "0x000000000000000000000000000000000000dead", "", address.ErrForbidden},                      //
		{"bsc", "0x0000000000000000000000000000000000001000", "", address.ErrForbidden},                      // the network's own
		{"bsc", "0x55d398326f99059ff775485246999027b3197955", "", address.ErrForbidden},                      // the token's contract
		{"bsc", "0xdAC17F958D2ee523a2206206994597C13D831ec7", "", address.ErrForbidden},                      // on the other network
		{"eth", "0xEeeeeEeeeEeEeeEeEeEeeEEEeeeeEeeeeeeeEEeE", "", address.ErrForbidden},                      // means ether in contracts
		{"eth", "0xffffffffffffffffffffffffffffffffffffffff", "", address.ErrForbidden},                      //
		{"eth", "0xdeadbeefdeadbeefdeadbeefdeadbeefdeadbeef", "", address.ErrForbidden},                      //
		{"eth", "0xdead000000000000000042069420694206942069", "", address.ErrForbidden},                      //
		{"btc", "1CounterpartyXXXXXXXXXXXXXXXUWLpVr", "", address.ErrForbidden},                              //
		{"ton", "0:83dfd552e63729b472fcbcc8c45ebcc6691702558b68ec7527e1ba403a0f31a8", "", address.ErrSyntax}, // raw
		{"ton", "kQCD39VS5jcptHL8vMjEXrzGaRcCVYto7HUn4bpAOg8xqKYH", "", address.ErrSyntax},                   // the test network's
		{"xrp", "X7AcgcsBL6XDcUb289X4mJ8djcdyKaB5hJDWMArnXr61cqZ", "", address.ErrSyntax},                    // a tag inside
		{"dot", "anything", "", address.ErrNetwork},                                                          //
		{"btc", "", "", address.ErrSyntax},                                                                   //
		{"btc", strings.Repeat("1", 1000), "", address.ErrSyntax},                                            //
	} {
		if got, err := address.Check(test.network, test.text); got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s %s: %q, %v; want %q, %v", test.network, test.text, got, err, test.want, test.err)
		}
	}
}

// TestNew makes up addresses for every coin and finds them valid, in the form that is stored.
func TestNew(t *testing.T) {
	t.Parallel()
	random := rand.NewChaCha8([32]byte{1})
	for _, c := range chain.Coins {
		for range 50 {
			a := address.New(c.Network, newSeed(random))
			if got, err := address.Check(c.Network, a); got != a || err != nil {
				t.Fatalf("%s %s: %q, %v", c.Code, a, got, err)
			}
		}
		if c.Contract == "" {
			continue
		}
		if _, err := address.Check(c.Network, c.Contract); !errors.Is(err, address.ErrForbidden) {
			t.Errorf("%s: its contract %s: %v", c.Code, c.Contract, err)
		}
	}
}

func newSeed(random *rand.ChaCha8) (seed address.Seed) {
	_, _ = random.Read(seed[:])
	return seed
}

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz:-_ "

// TestChangedCharacter changes one character of valid addresses in ten thousand ways, and none may still be valid. Solana's
// have no checksum. That of Ethereum's lets about one of 2^15 through: the seed is one without.
func TestChangedCharacter(t *testing.T) {
	t.Parallel()
	source := rand.NewChaCha8([32]byte{2})
	random := rand.New(source)
	networks := []string{"btc", "ltc", "trx", "bsc", "eth", "xrp", "ton", "ada", "bch", "doge"}
	for n := range 10_000 {
		network := networks[n%len(networks)]
		known := valid[network]
		a := known[random.IntN(len(known))]
		if n%2 == 0 {
			a = address.New(network, newSeed(source))
		}
		changed := []byte(a)
		at := random.IntN(len(changed))
		changed[at] = alphabet[random.IntN(len(alphabet))]
		if strings.TrimSpace(string(changed)) == a || string(changed) == a {
			continue
		}
		if got, err := address.Check(network, string(changed)); err == nil {
			t.Errorf("%s %s was changed to %s and still is %s", network, a, changed, got)
		}
	}
}

// TestRandom throws ten thousand random texts at every check. None may panic or be an address.
func TestRandom(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewChaCha8([32]byte{3}))
	starts := []string{"", "1", "3", "bc1", "bc1q", "bc1p", "L", "M", "ltc1q", "T", "r", "EQ", "UQ", "addr1", "bitcoincash:", "q", "D", "bc1\x00", "É"}
	for range 10_000 {
		text := []byte(starts[random.IntN(len(starts))])
		for range random.IntN(70) {
			if random.IntN(50) == 0 {
				text = append(text, byte(random.IntN(256)))
				continue
			}
			text = append(text, alphabet[random.IntN(len(alphabet))])
		}
		for _, network := range []string{"btc", "ltc", "trx", "bsc", "eth", "xrp", "ton", "ada", "bch", "doge"} {
			if got, err := address.Check(network, string(text)); err == nil {
				t.Errorf("%s: %q is taken for %s", network, text, got)
			}
		}
		_, _ = address.Check("sol", string(text)) // which has no checksum that could tell
	}
}

func FuzzCheck(f *testing.F) {
	for network, addresses := range valid {
		for _, a := range addresses {
			f.Add(network, a)
		}
	}
	f.Fuzz(func(t *testing.T, network, text string) {
		got, err := address.Check(network, text)
		if err != nil {
			return
		}
		if again, err := address.Check(network, got); again != got || err != nil {
			t.Errorf("%s %q is %s, and that is %s, %v", network, text, got, again, err)
		}
	})
}
