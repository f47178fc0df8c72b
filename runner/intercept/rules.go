package intercept

// DefaultRules returns rules for the usual tools of a coding agent: "read",
// "search", "find", "edit" and "write". The list is the caller's to change, for
// instance to name its own tools.
func DefaultRules() []Rule {
	return []Rule{
		{
			Match: called(`echo|printf|cat`) + `( .*)?\n(.*\n)*` + output,
			// What goes to no file, and what only the shell can tell.
			Unless:  `\n` + output + `/(dev|proc|sys)/|\$|` + "`",
			Tool:    "write",
			Message: "write files with the write tool, not by redirection",
		},
		{
			Match: called(`sed`) + `( .*)? (-[nErsuz]*i|--in-place)|` +
				called(`perl`) + `( .*)? -[pnlaw0]*i|` +
				called(`g?awk`) + `( .*)? (-i ?|--include[= ])inplace( |$)`,
			Tool:    "edit",
			Message: "change files with the edit tool, not in place by a stream editor",
		},
		{
			Match: called(`cat|head|tail|less|more|bat`) + `( -\S+( [-+]?\d+)?)* [^-\s]`,
			// What reads no file, goes on reading, or writes one.
			Unless:  `\n(<|` + output + `)|^.* /(dev|proc|sys)/|^\S+ (.* )?(-[a-zA-Z0-9]*[fF]|--follow|--retry)`,
			Tool:    "read",
			Message: "read files with the read tool, which pages and numbers lines",
		},
		{
			Match: called(`[ef]?grep|rg|ag|ack`) + ` `,
			// What only tests, and what is searched that is no file.
			Unless:  `\n<| (-[a-zA-Z]*q|--quiet|--silent)`,
			Tool:    "search",
			Message: "search in files with the search tool",
		},
		{
			Match: called(`find|fd|fdfind|locate`) + `( |\n|$)`,
			// What does more than find, and lists for programs.
			Unless:  ` (-exec(dir)?|-ok(dir)?|-delete|-fls|-f?print0|-fprintf?|-x|-X|--exec(-batch)?|-0|--print0)( |\n|$)`,
			Tool:    "find",
			Message: "find files with the find tool",
		},
	}
}

// output is an expression for a redirection of standard output to a file, up to
// its name.
const output = `(1?>|1?>>|1?>\||&>|&>>) `

// called is an expression for a command by one of its names, at any path.
func called(names string) string { return `^(\S*/)?(` + names + `)` }
