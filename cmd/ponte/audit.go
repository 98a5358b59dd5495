package main

import "fmt"

type auditCommand struct{}

type problemJSON struct {
	Account string `json:"account_id"`
	What    string `json:"problem"`
}

func (*auditCommand) Run(e *env) error {
	core, err := e.open()
	if err != nil {
		return err
	}
	defer core.Close()
	result, err := core.Audit(e.ctx)
	if err != nil {
		return err
	}
	problems := []problemJSON{}
	lines := []string{fmt.Sprintf("%d accounts, %d transfers, %d problems", result.Accounts, result.Transfers, len(result.Problems))}
	for _, p := range result.Problems {
		problems = append(problems, problemJSON{p.Account.String(), p.What})
		lines = append(lines, p.Account.String()+": "+p.What)
	}
	err = e.print(struct {
		Accounts  int64         `json:"accounts"`
		Transfers int64         `json:"transfers"`
		Problems  []problemJSON `json:"problems"`
	}{result.Accounts, result.Transfers, problems}, lines...)
	if err == nil && len(problems) > 0 {
		return errSilent
	}
	return err
}
