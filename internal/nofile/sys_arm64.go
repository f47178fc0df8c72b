package nofile

const sysPrlimit64 = 261
