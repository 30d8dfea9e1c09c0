/* Loads the library, reads a file by it, and unloads it, again and again. The arguments are the path of the library and the name of
 * the file. */
#include <dlfcn.h>
#include <namewire.h>
#include <stdio.h>

#define ROUNDS 20

/* A function of the library. */
#define FUNCTION(name) __typeof__(name) *name##_found = (__typeof__(name) *)dlsym(library, #name)

static int read_by(void *library, const char *name)
{
	FUNCTION(namewire_connect);
	FUNCTION(namewire_open);
	FUNCTION(namewire_pread);
	FUNCTION(namewire_close);
	FUNCTION(namewire_disconnect);
	struct namewire_error error;
	char byte;
	struct namewire_context *context = namewire_connect_found(NULL, &error);
	struct namewire_file *file = context ? namewire_open_found(context, name, &error) : NULL;
	ssize_t count = file ? namewire_pread_found(file, &byte, 1, 0, &error) : -1;

	if (count != 1)
		fprintf(stderr, "%s\n", error.text);
	namewire_close_found(file);
	namewire_disconnect_found(context);
	return count == 1;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	for (int i = 0; i < ROUNDS; i++) {
		void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);

		if (!library) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		/* Its threads may still run when it is closed. */
		if (!read_by(library, argv[2]) || dlclose(library) != 0)
			return 1;
	}
	puts("passed");
	return 0;
}
