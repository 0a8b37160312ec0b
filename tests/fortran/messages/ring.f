! ranks: 1 2 4
! A token goes round the processes and gathers their numbers.
      PROGRAM RING
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER IERR, ME, NP, TOKEN, LEFT, RIGHT, ROUND
      INTEGER STAT(MPI_STATUS_SIZE)
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      LEFT = MOD(ME + NP - 1, NP)
      RIGHT = MOD(ME + 1, NP)
      DO 10 ROUND = 1, 3
         IF (ME .EQ. 0) THEN
            TOKEN = 1000*ROUND
            IF (NP .GT. 1) THEN
               CALL MPI_SEND(TOKEN, 1, MPI_INTEGER, RIGHT, ROUND,
     &                       MPI_COMM_WORLD, IERR)
               CALL MPI_RECV(TOKEN, 1, MPI_INTEGER, LEFT, ROUND,
     &                       MPI_COMM_WORLD, STAT, IERR)
            END IF
            IF (TOKEN .NE. 1000*ROUND + NP*(NP-1)/2) STOP 1
         ELSE
            CALL MPI_RECV(TOKEN, 1, MPI_INTEGER, LEFT, ROUND,
     &                    MPI_COMM_WORLD, STAT, IERR)
            IF (STAT(MPI_SOURCE) .NE. LEFT) STOP 2
            IF (STAT(MPI_TAG) .NE. ROUND) STOP 3
            TOKEN = TOKEN + ME
            CALL MPI_SEND(TOKEN, 1, MPI_INTEGER, RIGHT, ROUND,
     &                    MPI_COMM_WORLD, IERR)
         END IF
   10 CONTINUE
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
