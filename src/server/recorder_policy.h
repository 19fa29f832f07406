/* recorder_policy.h: the policy in force, for recordings. */
#ifndef WEIR_SERVER_RECORDER_POLICY_H
#define WEIR_SERVER_RECORDER_POLICY_H

#include "observe/recorder.h"

/* `loader` is a struct weir__policy_loader. See struct weir__recorder_options. */
void weir__recorder_policy(void *loader, void (*tell)(void *context, const struct weir__recorder_policy *policy),
			   void *context);

#endif
