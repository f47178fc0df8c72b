package nofile

const sysPrlimit64 = 302
