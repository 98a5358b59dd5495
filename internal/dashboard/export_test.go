package dashboard

import "github.com/ponte-pay/ponte/internal/user"

// Rule is a route as tests see it.
type Rule struct {
	Method, Path string
	Who          string // nobody, anybody, halfway, person, member or operator
	May          user.Permission
}

// Routes returns every route with its rule.
func Routes() (list []Rule) {
	names := map[who]string{nobody: "nobody", anybody: "anybody", halfway: "halfway", person: "person", member: "member", operator: "operator"}
	for _, r := range routes() {
		list = append(list, Rule{r.method, r.path, names[r.rule.who], r.rule.may})
	}
	return list
}
