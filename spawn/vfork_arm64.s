#include "textflag.h"

// func vforkSyscall(trap, a1, a2, a3 uintptr) (r1, errno uintptr)
//
// A leaf without a frame: the return address stays in the link register, which
// the child can't overwrite for the parent.
TEXT ·vforkSyscall(SB),NOSPLIT|NOFRAME,$0-48
	MOVD	trap+0(FP), R8
	MOVD	a1+8(FP), R0
	MOVD	a2+16(FP), R1
	MOVD	a3+24(FP), R2
	MOVD	ZR, R3
	MOVD	ZR, R4
	MOVD	ZR, R5
	SVC
	CMN	$4095, R0
	BCS	failed
	MOVD	R0, r1+32(FP)
	MOVD	ZR, errno+40(FP)
	RET
failed:
	NEG	R0, R0
	MOVD	$-1, R4
	MOVD	R4, r1+32(FP)
	MOVD	R0, errno+40(FP)
	RET
