/* policy.c: any bytes as a policy, of either form. What is wrong with it is reported in lines; what is read says of any
 * request which limits apply.
 *
 * An input is the file up to its first NUL; then the attributes of a request, with a NUL between them. */
#include "policies.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *const end = size ? memchr(data, '\0', size) : NULL;
	const size_t length = end ? (size_t)(end - data) : size;
	struct weir_attribute words[WORDS_MAX];
	struct weir_policy *policy = NULL;
	unsigned lines = 0;
	char *text;
	int error;

	text = malloc(length + 1); /* exactly as long, so that reading beyond it shows */
	if (text == NULL)
		abort();
	if (length > 0)
		memcpy(text, data, length);
	error = weir_policy_read(text, length, NULL, check_fault, &lines,
				 &policy); /* without a name no file is opened */
	free(text);
	check_read(error, lines, policy);
	if (policy) {
		check_plans(policy);
		check_attributes(policy, words,
				 end ? read_words(end + 1, size - length - 1, words) : read_words(data, size, words));
	}
	weir_policy_free(policy);
	return 0;
}
