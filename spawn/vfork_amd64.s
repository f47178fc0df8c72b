#include "textflag.h"

// func vforkSyscall(trap, a1, a2, a3 uintptr) (r1, errno uintptr)
//
// Parent and child return from here on the same stack. The child runs first
// and overwrites the slot that holds the return address, so the address waits
// in a register that the kernel preserves.
TEXT ·vforkSyscall(SB),NOSPLIT|NOFRAME,$0-48
	MOVQ	trap+0(FP), AX
	MOVQ	a1+8(FP), DI
	MOVQ	a2+16(FP), SI
	MOVQ	a3+24(FP), DX
	XORL	R10, R10
	XORL	R8, R8
	XORL	R9, R9
	POPQ	R12
	SYSCALL
	PUSHQ	R12
	CMPQ	AX, $-4095
	JCC	failed
	MOVQ	AX, r1+32(FP)
	MOVQ	$0, errno+40(FP)
	RET
failed:
	NEGQ	AX
	MOVQ	$-1, r1+32(FP)
	MOVQ	AX, errno+40(FP)
	RET
