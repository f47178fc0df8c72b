package policy

func (c *cache) maven() {}

func (c *cache) pnpm() {}

func (c *cache) seedGo(e *goEnv, download string) {}
