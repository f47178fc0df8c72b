package main

import (
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// socketChecks are about Unix sockets.
var socketChecks = []insideCheck{
	{check: check{"socket", "abstract-connect", false}, run: func(a *arena) error { return dial("unix", "@"+a.Other.Abstract) }},
	{check: check{"socket", "abstract-datagram", false}, run: func(a *arena) error {
		return dial("unixgram", "@"+a.Other.Abstract+"-datagram")
	}},
	{
		check: check{"socket", "abstract-descriptor", false},
		run:   func(a *arena) error { return receive("@" + a.Other.Abstract) },
		state: func(a *arena) string { return state(a.Out + "/by-abstract") },
	},
	{check: check{"socket", "path-connect", false}, run: func(a *arena) error { return dial("unix", a.Other.Path) }},
	{check: check{"socket", "path-datagram", false}, run: func(a *arena) error { return dial("unixgram", a.Other.Datagram) }},
	{
		check: check{"socket", "path-descriptor", false},
		run:   func(a *arena) error { return receive(a.Other.Path) },
		state: func(a *arena) string { return state(a.Out + "/by-path") },
	},
	{check: check{"control", "own-abstract-socket", true}, run: func(a *arena) error { return ownSocket("@own-" + a.Other.Abstract) }},
	{check: check{"control", "own-path-socket", true}, run: func(a *arena) error { return ownSocket(a.Tree + "/in/s") }},
	{check: check{"control", "own-socket-pair", true}, run: func(*arena) error {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return errors.Join(unix.Close(fds[0]), unix.Close(fds[1]))
	}},
}

func dial(kind, name string) error {
	c, err := net.DialUnix(kind, nil, &net.UnixAddr{Name: name, Net: kind})
	if err != nil {
		return err
	}
	defer c.Close()
	if kind == "unixgram" {
		_, err = c.Write([]byte("x"))
	}
	return err
}

// receive takes a descriptor from a socket, and writes to it.
func receive(name string) error {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := c.ReadMsgUnix(make([]byte, 1), oob)
	if err != nil {
		return err
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(msgs) == 0 {
		return errors.Join(err, errors.New("no descriptor came"))
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fds[0]), name)
	defer f.Close()
	_, err = f.WriteString("more\n")
	return err
}

// ownSocket connects to a socket of this process's own.
func ownSocket(name string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return err
	}
	defer l.Close()
	return dial("unix", name)
}
