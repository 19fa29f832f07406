/* single_step.c: runs weir_step_allow one machine instruction at a time and counts them, and the divisions among them.
 *
 * A child decides; its parent single-steps it from the first instruction of weir_step_allow to the one after its
 * return. Parent and child are one program, so the parent reads the instructions in its own memory. Prints one line
 * for each scenario: KIND MODE DECISIONS LEAST MOST DIVISIONS. LEAST and MOST are instructions of one decision.
 * DIVISIONS is the most divisions of one decision. */
#include "scenario.h"

#include <err.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	WARM_UP = 100,
	DECISIONS = 20, /* all take the same path, and stepping is slow */
};

struct counts {
	uint64_t decisions, least, most, divisions;
};

static bool is_prefix(unsigned char byte)
{
	return byte != 0 && strchr("\x66\x67\xf0\xf2\xf3\x2e\x36\x3e\x26\x64\x65", byte) != NULL;
}

/* DIV and IDIV, F6 and F7 with 6 or 7 in the reg field of what follows; and DIVSS, DIVSD, DIVPS, DIVPD. With a VEX
 * prefix, too. */
static bool is_division(const unsigned char *at)
{
	if (at[0] == 0xc5)
		return at[2] == 0x5e;
	if (at[0] == 0xc4)
		return (at[1] & 0x1f) == 1 && at[3] == 0x5e;
	while (is_prefix(*at))
		at++;
	if ((*at & 0xf0) == 0x40) /* REX */
		at++;
	if (*at == 0xf6 || *at == 0xf7)
		return (at[1] >> 3 & 7) >= 6;
	return at[0] == 0x0f && at[1] == 0x5e;
}

static void decide(const struct scenario *scenario)
{
	static struct scene scene;
	weir_ns now;

	scenario_begin(scenario, &scene);
	now = scene.start;
	for (int i = 0; i < WARM_UP + DECISIONS; i++, now += scene.advance) {
		if (i == WARM_UP)
			raise(SIGSTOP);
		if (weir_step_allow(&scene.plan, scene.state, now, 1) != scenario->is_allowed)
			errx(1, "%s %s: unexpected decision", scenario->kind, scenario->mode);
	}
}

static void wait_for(pid_t child, int *ret_status)
{
	if (waitpid(child, ret_status, 0) != child)
		err(1, "waitpid");
}

static struct user_regs_struct registers_of(pid_t child)
{
	struct user_regs_struct registers;

	if (ptrace(PTRACE_GETREGS, child, NULL, &registers) != 0)
		err(1, "PTRACE_GETREGS");
	return registers;
}

/* Steps the child until it ends. */
static struct counts count_in(pid_t child)
{
	struct counts counts = { .least = UINT64_MAX };
	uint64_t stack = 0, instructions = 0, divisions = 0; /* stack: pointer at the entry, 0 outside a decision */
	int status;

	for (;;) {
		struct user_regs_struct registers;

		if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0)
			err(1, "PTRACE_SINGLESTEP");
		wait_for(child, &status);
		if (!WIFSTOPPED(status))
			break;
		registers = registers_of(child);
		if (stack != 0 && registers.rsp > stack) { /* it has returned */
			counts.decisions++;
			if (instructions < counts.least)
				counts.least = instructions;
			if (instructions > counts.most)
				counts.most = instructions;
			if (divisions > counts.divisions)
				counts.divisions = divisions;
			stack = 0;
			if (counts.decisions == DECISIONS && ptrace(PTRACE_CONT, child, NULL, NULL) == 0) {
				wait_for(child, &status);
				break;
			}
		}
		if (registers.rip == (uintptr_t)weir_step_allow) {
			stack = registers.rsp;
			instructions = divisions = 0;
		}
		if (stack != 0) {
			instructions++;
			divisions += is_division((const unsigned char *)registers.rip);
		}
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || counts.decisions != DECISIONS)
		errx(1, "the child ended after %" PRIu64 " decisions", counts.decisions);
	return counts;
}

static struct counts count(const struct scenario *scenario)
{
	const pid_t child = fork();
	int status;

	if (child < 0)
		err(1, "fork");
	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			err(1, "PTRACE_TRACEME");
		decide(scenario);
		_exit(0);
	}
	wait_for(child, &status);
	if (!WIFSTOPPED(status))
		errx(1, "%s %s: the child ended before its decisions", scenario->kind, scenario->mode);
	return count_in(child);
}

int main(void)
{
	for (size_t i = 0; i < scenarios_n; i++) {
		const struct counts counts = count(&scenarios[i]);

		printf("%s %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", scenarios[i].kind, scenarios[i].mode,
		       counts.decisions, counts.least, counts.most, counts.divisions);
	}
	return 0;
}
