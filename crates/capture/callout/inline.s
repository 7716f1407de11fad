/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The entry points of loads and stores as macros: pw_record() of ../protocol/runtime.h, with the address in %rdi. A full
 * buffer takes the call after all, out of the way. */
	.macro	pagewalk_access tag, entry
	movq	pw_cursor@gottpoff(%rip), %rdx
	movq	%fs:(%rdx), %rax
	testw	%ax, %ax
	je	.Lpagewalk_full\@
	movq	%rdi, (%rax)
	movb	$\tag, 6(%rax)
	addq	$8, %rax
	movq	%rax, %fs:(%rdx)
.Lpagewalk_done\@:
	.subsection 1
.Lpagewalk_full\@:
	call	\entry
	jmp	.Lpagewalk_done\@
	.previous
	.endm

	.macro	pagewalk_read1 entry
	pagewalk_access 0, \entry
	.endm
	.macro	pagewalk_read2 entry
	pagewalk_access 1, \entry
	.endm
	.macro	pagewalk_read4 entry
	pagewalk_access 2, \entry
	.endm
	.macro	pagewalk_read8 entry
	pagewalk_access 3, \entry
	.endm
	.macro	pagewalk_read16 entry
	pagewalk_access 4, \entry
	.endm
	.macro	pagewalk_write1 entry
	pagewalk_access 8, \entry
	.endm
	.macro	pagewalk_write2 entry
	pagewalk_access 9, \entry
	.endm
	.macro	pagewalk_write4 entry
	pagewalk_access 10, \entry
	.endm
	.macro	pagewalk_write8 entry
	pagewalk_access 11, \entry
	.endm
	.macro	pagewalk_write16 entry
	pagewalk_access 12, \entry
	.endm
